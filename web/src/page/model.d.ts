/** Made by the build: addresses and sizes of the model, the runtime and an example, relative to the page. */
declare module "virtual:page-files" {
  import type { ModelFiles } from "../predict/messages.ts";
  export const files: ModelFiles;
  export const version: string;
  export const example: string;
}
