/** Rows that several components share. */

export interface ReviewRow {
  key: string;
  title: string;
  detail: string;
}

export interface HelpGroup {
  title: string;
  rows: readonly { keys: string; text: string }[];
}
