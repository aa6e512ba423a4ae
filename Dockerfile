# SPDX-License-Identifier: Apache-2.0
# The sidecar in a container, from Debian's packages. Built by compose.yaml, or standalone:
#
#   docker build --target exporter -t handoff-exporter .
#   docker run -p 9780:9780 -p 127.0.0.1:8780:8780 -v handoff:/var/lib/handoff-exporter handoff-exporter
#
# Stages: build, exporter (the image to deploy), demo (the five agents and the pager of compose.yaml).

FROM debian:13-slim AS build
# Installs the packages that scripts/dependencies lists for the group run.
COPY scripts /src/scripts
RUN /src/scripts/install-deps run && apt-get install -y --no-install-recommends dpkg-dev
COPY . /src
WORKDIR /src
ARG REVISION=""
RUN scripts/npm-install \
    && cmake --preset release -DBUILD_TESTING=OFF -DCMAKE_INSTALL_PREFIX=/usr -DHANDOFF_REVISION="$REVISION" \
    && cmake --build --preset release \
    && DESTDIR=/out cmake --install build/release --strip
# The packages with the libraries that the two programs are linked with.
RUN mkdir debian && touch debian/control \
    && dpkg-shlibdeps -O /out/usr/bin/handoff-exporter /out/usr/bin/handoffctl \
       | sed -e 's/^shlibs:Depends=//' -e 's/([^)]*)//g' -e 's/[ ,]\+/\n/g' | sort -u >/out/packages

FROM debian:13-slim AS exporter
COPY --from=build /out/packages /tmp/packages
RUN apt-get update \
    && xargs apt-get install -y --no-install-recommends ca-certificates curl </tmp/packages \
    && rm -rf /var/lib/apt/lists/* /tmp/packages \
    && useradd --system --uid 978 --home-dir /var/lib/handoff-exporter --create-home --skel /dev/null handoff
COPY --from=build /out/usr/ /usr/
USER handoff
VOLUME /var/lib/handoff-exporter
EXPOSE 9780 8780
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["curl", "-fsS", "-o", "/dev/null", "http://127.0.0.1:9780/-/healthy"]
# In a container, agents connect from other hosts, so the API listens on all addresses; which ports are
# published is decided when the container is run.
ENTRYPOINT ["/usr/bin/handoff-exporter", "--storage.path=/var/lib/handoff-exporter", "--api.listen-address=:8780"]

FROM debian:13-slim AS demo
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 979 demo
COPY demo/agents.py demo/pager.py demo/story.py /demo/
USER demo
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /demo
# compose.yaml selects the program to run
CMD ["python3", "agents.py", "--help"]
