"""Images in registries: present meaning of references, and logins.

The protocol is https://github.com/opencontainers/distribution-spec/blob/main/spec.md. Requests go through
`http`, files of logins through the Docker SDK; docs/base-images.md explains why `oras` is not used.
"""
