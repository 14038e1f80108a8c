"""Images of registries: what a reference means now, and the user's own logins.

The protocol is https://github.com/opencontainers/distribution-spec/blob/main/spec.md. Requests go through `net`, files
of logins through the Docker SDK; docs/base-images.md says why not through `oras`.
"""
