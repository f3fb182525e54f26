"""Tests of the page in Chromium, against the server that `treeformer edit` starts."""
