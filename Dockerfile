# The plain install with the browser editor, which listens on 127.0.0.1 only, therefore the host's network:
#   docker build -t treeformer .
#   docker run --rm -it --network host --user "$(id -u):$(id -g)" -v "$PWD/photos:/photos" treeformer
# Then open the address that it prints.
FROM python:3.11-slim
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt ".[web]" && rm -rf /source/*
WORKDIR /photos
ENTRYPOINT ["treeformer"]
CMD ["edit", "/photos", "--no-browser", "--port", "8765"]
