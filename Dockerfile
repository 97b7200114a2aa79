# The image of kiln. The first stage installs and builds, the second takes only what runs.
#
#   environment/build-image.sh builds it with docker, podman or buildah, and says which arguments it gives.
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /kiln
# The lists alone: as long as they stay, so does this layer.
COPY environment/install.sh environment/packages-build.txt environment/wheels-libtorch.txt \
     environment/wheels-cuda-headers.txt environment/wheels-arrow.txt environment/
RUN --mount=type=secret,id=ca_bundle --mount=type=secret,id=pip_conf \
    [ ! -s /run/secrets/ca_bundle ] || export PIP_CERT=/run/secrets/ca_bundle; \
    [ ! -s /run/secrets/pip_conf ] || export PIP_CONFIG_FILE=/run/secrets/pip_conf; \
    environment/install.sh --no-tests
COPY . .
ARG VARIANT=cuda
ARG COMMIT=unknown
RUN cmake --preset release -DKILN_COMMIT=${COMMIT} && cmake --build --preset release --target kiln && \
    environment/bundle.sh --whole ${VARIANT} /bundle && rm -rf build

FROM ${BASE_IMAGE}
# The cache of podman and buildah does not look into mounts, but into what is copied.
COPY --from=build /bundle/checksum /opt/kiln/
# 1: Debian's libheif reads HEIC photos; it links libde265, and libx265, which is under the GPL.
ARG HEIC=0
RUN --mount=type=bind,from=build,source=/bundle,target=/bundle HEIC=${HEIC} /bundle/setup/install.sh
# 1: a key pair for SageMaker jobs of several hosts. Whoever has the image has the key: for a private registry only.
ARG SAGEMAKER_HOSTS_KEY=0
RUN if [ "${SAGEMAKER_HOSTS_KEY}" = 1 ]; then mkdir -p /etc/kiln && ssh-keygen -q -t ed25519 -N '' -f /etc/kiln/hosts_key; fi
# A server in a container is reached from outside of it. mpirun crashes without HOME where the user has no passwd entry,
# and refuses root unless told twice.
ENV HOME=/tmp \
    KILN_HOST=0.0.0.0 \
    OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /tmp
ARG VERSION=unknown
ARG COMMIT=unknown
ARG LICENSES="Apache-2.0 AND LicenseRef-NVIDIA-Proprietary"
LABEL org.opencontainers.image.title="kiln" \
      org.opencontainers.image.description="Trains image classifiers" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.licenses="${LICENSES}"
STOPSIGNAL SIGTERM
ENTRYPOINT ["kiln"]
