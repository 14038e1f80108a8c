"""Files that are secrets by their name: of variables, logins and keys."""

from __future__ import annotations

import re

from reprobuild_portable.secrets.words import is_real_login

# The path below the top of a source, any case. Keys have many names that certificates have, too: those are looked into.
_FILES = re.compile(
    r"(?is)(?:.*/)?(?:"
    r"\.env(?:rc|\.(?!(?:[a-z0-9_-]{1,40}\.){0,3}(?:example|sample|template|dist|defaults?|sch"
    r"ema|md|txt|in|j2|tpl)$)[^/]{1,100})?"
    r"|[._]netrc|\.git-credentials|\.pgpass|\.my\.cnf|\.s3cfg|\.boto|\.htpasswd|kaggle\.json|\.vault-token"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|[^/]{1,100}\.(?:p12|pfx|keytab|jks|keystore|kdbx|ppk|kubeconfig)"
    r"|\.aws/credentials|\.kube/config|kubeconfig|\.oci/config|\.azure/(?:accesstokens\.json|msa"
    r"l_token_cache\.[a-z]{1,9})"
    r"|gcloud/(?:credentials\.db|access_tokens\.db|application_default_credentials\.json|legac"
    r"y_credentials/.{1,200})"
    r"|master\.key|jupyter_cookie_secret|\.passwd-s3fs|\.smbcredentials|sitemanager\.xml"
    r"|application_default_credentials\.json|client_secret[^/]{0,200}\.json|\.databrickscfg|\.t"
    r"erraform\.d/credentials\.tfrc\.json"
    r"|\.huggingface/token|\.cache/huggingface/(?:token|stored_tokens)"
    r")"
)
# These hold a login, or none: which of the two is seen in them.
_DOUBTFUL = re.compile(
    r"(?is)(?:.*/)?(?:\.pypirc|\.npmrc|\.yarnrc(?:\.yml)?|\.condarc|pip\.conf|\.docker/config\.json|"
    r"\.dockercfg"
    r"|[^/]{1,100}\.(?:pem|key|crt|cer)|credentials(?:\.json|\.toml)?|secrets?\.(?:ya?ml|json|toml|env))"
)
_LOGIN = re.compile(
    rb"(?i)PRIVATE KEY-----|(?:_?password|_auth(?:token)?|\"auth\"|token|secret[a-z_]{0,20})[\""
    rb"']?[ \t]{0,9}[=:][ \t]{0,9}[\"']?[^\s\"'${<]{4}"
    rb"|://[^\s/:@]{0,100}:[^\s/@]{1,200}@|/t/[a-z]{2}-[0-9a-f-]{30}"
)
# Files of clients of data bases, by another name than that of the home directory, and where each has a password.
_CLIENTS = (
    (
        re.compile(r"(?is)(?:.*/)?[^/]{0,60}my\.(?:cnf|ini)"),
        re.compile(rb"(?m)^[ \t]{0,9}password[ \t]{0,9}=[ \t]{0,9}[\"']?([^\s\"'#]{1,200})"),
    ),
    (
        re.compile(r"(?is)(?:.*/)?[^/]{0,60}pgpass(?:\.conf)?"),
        re.compile(rb"(?m)^[^\s:#][^\n:]{0,253}:(?:\d{1,5}|\*):[^\n:]{1,63}:[^\n:]{1,63}:([^\r\n]{1,200})"),
    ),
)


def secret_name_of_file(path: str) -> bool:
    """Return whether a file may be a secret by its name alone."""
    return any(name.fullmatch(path) for name in (_FILES, _DOUBTFUL, *(client[0] for client in _CLIENTS)))


def secret_file(path: str, content: bytes) -> bool:
    """Return whether a file of a source is a secret by its name, and is not empty.

    Args:
        path: below the top of the source.
        content: of the file; public certificates and settings without a login do not count.
    """
    if _FILES.fullmatch(path):
        return bool(content.strip())
    for name, password in _CLIENTS:
        if name.fullmatch(path):
            return any(_is_password(match[1]) for match in password.finditer(content))
    return bool(_DOUBTFUL.fullmatch(path) and _LOGIN.search(content))


def _is_password(value: bytes) -> bool:
    """Return whether a password of a file is real, and not a template or a word of a document."""
    text = value.decode("utf-8", "replace")
    return is_real_login(f"x:{text}") and not re.search("(?i)your[_-]?pass|example", text)
