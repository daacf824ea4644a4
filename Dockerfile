# qcode in a container: docker build -t qcode . && docker run --rm -it -v "$PWD:/work" -e ANTHROPIC_API_KEY qcode
# Add `--user "$(id -u):$(id -g)"` so that files in the mounted folder stay yours; any user id works.
ARG PYTHON=3.13
FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY . .
RUN python -m venv /opt/qcode \
    && /opt/qcode/bin/python -m pip install --no-cache-dir --constraint constraints.txt . \
    && /opt/qcode/bin/python -m pip uninstall --yes pip

FROM python:${PYTHON}-slim
# git for the repository in /work, ripgrep for search, bubblewrap for the sandbox.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap git ripgrep \
    && rm -rf /var/lib/apt/lists/* \
    && git config --system --add safe.directory /work
COPY --from=build /opt/qcode /opt/qcode
# State is in a folder that every user may write, because --user may name an id without a home.
ENV PATH=/opt/qcode/bin:$PATH HOME=/home/qcode QCODE_HOME=/home/qcode/.qcode
RUN useradd --uid 1000 --create-home --home-dir /home/qcode qcode \
    && mkdir /home/qcode/.qcode /work \
    && chmod 0777 /home/qcode /home/qcode/.qcode /work
USER 1000
WORKDIR /work
ENTRYPOINT ["qcode"]
