"""The server of the browser editor, `treeformer edit`. It needs the extra `web`."""
