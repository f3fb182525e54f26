"""Read and write RSML, the Root System Markup Language."""
