# The plain install with the browser editor:  docker build -t treeformer . && docker run --network host -v "$PWD/photos:/photos" treeformer
# The editor listens on 127.0.0.1 only, therefore the host's network.
FROM python:3.11-slim
COPY . /src
RUN pip install --no-cache-dir -c /src/constraints.txt "/src[web]" && rm -rf /src
ENTRYPOINT ["treeformer"]
CMD ["edit", "/photos", "--no-browser", "--port", "8765"]
