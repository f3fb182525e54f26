/** The page of `treeformer edit`. */

import { HttpBackend } from "./api";
import { mountApp } from "./ui/mount";
import "./page.css";

const target = document.getElementById("app");
if (target) mountApp(target, new HttpBackend());
