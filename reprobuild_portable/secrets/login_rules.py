"""List keys and logins of services: in addresses, headers and files."""

from __future__ import annotations

from reprobuild_portable.secrets.commands import JOINED
from reprobuild_portable.secrets.judges import (
    NUMBER,
    SecretRule,
    _chosen_login,
    _encoded_login,
    _given_login,
    _header,
    _header_value,
    _machine_login,
    _quoted,
    _quoted_login,
)
from reprobuild_portable.secrets.words import (
    is_real_login,
    looks_chosen,
    token_login,
)

LOGIN_RULES: tuple[SecretRule, ...] = (
    SecretRule(
        "azure-key",
        ("accountkey=", "sharedaccesskey="),
        r"(?i:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,100}={0,2})",
    ),
    SecretRule(
        "azure-sas",
        ("sig=",),
        r"(?:[?&;\"' \t]|amp;)sig=([A-Za-z0-9%+/_-]{40,120}={0,2})",
        _quoted,
        run=True,
    ),
    SecretRule(
        "wandb",
        ("wandb",),
        r"(?i:wandb)(?:[\w.()\[\]\"' ,=:]{0,60}(?i:key)[\"'\]]{0,2}[ \t]{0,4}[=:,][ \t]{0,4}\\?[\"']?"
        r"|[ \t]{1,9}login[ \t]{1,9}(?:--[a-z]{1,20}(?:[= \t]https?://[^\s\"']{1,200})?[ \t]{1,9}){0,3})"
        r"([0-9a-f]{40})(?![0-9a-f])",
    ),
    SecretRule(  # a slash in the password, but for a port and a path with `r.git@commit`
        "url-credential",
        ("@",),
        # No address has control characters; compiled code has them between its strings.
        r"://([^\s\x00-\x1f/:@'\"<>]{0,100}:(?:[^\s\x00-\x1f/@'\"<>]{1,300}"
        r"|(?!(?:\d{0,5}|(?i:port))[/?#,;])(?:(?!//)[^\s\x00-\x1f@'\"<>]){1,300}(?<!\.git)(?<!/)))@",
        is_real_login,
        near="://",
    ),
    SecretRule(  # with a quote or an angle bracket in the password, which else end an address
        "url-quoted",
        ("@",),
        r"://([^\s\x00-\x1f/:@'\"<>]{0,100}:[^\s\x00-\x1f/@'\"<>]{0,100}['\"<>](?:[^\s\x00-\x1f/@]{0,200}))@(?=[\w\[])",
        _quoted_login,
        near="://[^/@]{0,300}['\"<>][^/@]{0,200}@",
    ),
    SecretRule(  # `@` and `:` are percent-encoded
        "url-encoded",
        ("%40", "2540"),
        r"://([^\s/@'\"<>?#%]{0,100}%(?:25){0,9}3[Aa][^\s/@'\"<>?#]{1,300}?)%(?:25){0,9}40",
        _encoded_login,
        run=True,
        near="://",
    ),
    SecretRule(  # one slash, or three
        "url-slash",
        ("@",),
        r"(?i:https?|ftps?|ssh):(?:/|/{3,9})(?!/)([^\s/:@'\"<>]{0,100}:[^\s/@'\"<>]{1,300})@",
        is_real_login,
        near="[pPsShH]:/(?:[^/]|//)",
    ),
    SecretRule(  # without a scheme
        "url-relative",
        ("@",),
        r"(?:(?<![\w:/\\])|(?<=\\[nrt]))//[^\s/:@'\"<>]{1,100}:([^\s/@:\"'<>$(){}\[\],;=]{6,100})@(?=[\w\[])",
        looks_chosen,
        near="//[^/@:]{1,100}:[^/@:]{6,100}@",
    ),
    SecretRule(  # https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app
        "oauth-login",
        ("x-oauth-basic", "x-access-token:"),
        r"(?<![\w-])(?:x-access-token:(?=[\w-])|(?=[\w-]{8,400}:x-oauth-basic(?![\w-])))([\w-]{8,400})",
        looks_chosen,
        near=NUMBER,
    ),
    SecretRule(  # `HTTP_AUTH=user:password`
        "auth-login",
        ("auth=", "login="),
        r"(?:(?<![A-Za-z0-9_.-])|(?<=\\[nrt]))(?:[A-Z][A-Z0-9_]{0,60}_)?(?:AUTH|LOGIN)="
        r"(?P<before>[\"']?(?!(?:sha\d|md5))[^\s:\"'$=/]{1,60}:)(?P<secret>[^\s\"'`;|&<>()\\,/@]{8,200})",
        _chosen_login,
        near=NUMBER,
    ),
    SecretRule(
        "url-token",
        ("@",),
        r"(?i:https?)://([A-Za-z0-9_~+%-]{16,100}(?::[^\s/@'\"<>]{0,300})?)@(?!sha\d)",
        token_login,
        near="://",
    ),
    # https://help.cloudsmith.io/docs/entitlements, https://gemfury.com/help/pypi-server and
    # https://packagecloud.io/docs#read_tokens
    SecretRule(
        "index-path",
        ("cloudsmith.io/", "fury.io/", "packagecloud.io/"),
        r"(?i:cloudsmith\.io/(?!(?:public|basic|priv)/)|fury\.io/|packagecloud\.io/(?:priv/)?)"
        r"([A-Za-z0-9_-]{12,100})/[\w.~-]",
        looks_chosen,
        near="(?i:smith|fury|cloud)\\.io/",
    ),
    SecretRule(
        "url-parameter",
        ("token=", "key=", "signature="),
        r"(?i)[?&](?:amp;)?(?:[a-z_-]{0,20}token|[a-z_-]{0,20}key|[a-z_-]{0,20}signature)=([A-Z"
        r"a-z0-9%._~+/-]{20,400}={0,2})",
        _quoted,
        run=True,
    ),
    SecretRule(  # JDBC and ODBC
        "connection",
        ("password=", "pwd=", "passwd="),
        r"(?i)[?&;][ \t]?(?:password|passwd|pwd)=([^\s&;\"'<>\\]{4,200})",
        looks_chosen,
        near=NUMBER,
    ),
    SecretRule(  # ODBC in an address of SQLAlchemy
        "connection-encoded",
        ("pwd%3d", "password%3d"),
        r"(?i)%3B(?:pwd|password)%3D([^\s&;\"'<>\\%]{4,200})",
        looks_chosen,
        near=NUMBER,
    ),
    SecretRule(  # of a proxy, without a scheme
        "host-login",
        ("@",),
        r"(?<![\w/:.@%+-])[A-Za-z][\w.-]{0,60}:([^\s/@:\"'<>$(){}\[\],;=]{6,100})@[A-Za-z0-9][\w.-]{0,200}"
        r":\d{2,5}(?![\w.])",
        looks_chosen,
        near=r"@[\w.-]{1,200}:\d",
    ),
    SecretRule(  # https://www.elastic.co/docs/api/doc/elasticsearch/authentication
        "header-scheme",
        ("apikey ",),
        r"(?i)(?:(?<![\w-])|(?<=\\[nrt]))apikey[ \t]{1,4}([A-Za-z0-9+/_-]{20,400}={0,2})",
        looks_chosen,
        near=NUMBER,
    ),
    SecretRule(  # https://docs.honeycomb.io/send-data/opentelemetry/
        "header-honeycomb",
        ("x-honeycomb-team",),
        r"(?i)x-honeycomb-team[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\"']?([a-z0-9_]{20,80})",
        looks_chosen,
        near=NUMBER,
    ),
    SecretRule(  # https://www.twilio.com/docs/iam/api-keys
        "twilio",
        ("ac",),
        r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))AC[0-9a-f]{32}:([0-9a-f]{32})(?![0-9a-f])",
        run=True,
        near="AC[0-9a-f]{32}:",
    ),
    SecretRule(
        "netrc",
        ("password",),
        r"(?:(?<![\w.-])|(?<=\\[nrt]))(?P<before>(?:machine[ \t]{1,9}\S{1,253}|default)"
        r"(?:[ \t\r\n]{1,9}(?:login|account)[ \t]{1,9}\S{1,200}){0,2})[ \t\r\n]{1,9}password[ \t]{1,9}"
        r"(?P<secret>\S{1,200})",
        _machine_login,
        lines=3,
    ),
    SecretRule(
        "docker-auth",
        ('"auth', "'auth", '"identitytoken'),
        r"\\?[\"'](?:auth|identitytoken)\\?[\"'][ \t]{0,4}:\s{0,40}\\?[\"']([A-Za-z0-9+/._-]{8,2000}={0"
        r",2})\\?[\"']",
        _header,
    ),
    SecretRule(
        "npm-auth",
        ("_auth", "_password="),
        r"(?<![A-Za-z0-9])_(?:authToken|auth|password)[ \t]{0,4}=[ \t]{0,4}[\"']?([A-Za-z0-9+/=_.-]{8,1000})",
        looks_chosen,
        near=NUMBER,
    ),
    SecretRule(
        "kaggle-json",
        ("key",),
        r"\\?[\"']username\\?[\"']\s{0,9}:\s{0,9}\\?[\"'][^\"'\\]{1,100}\\?[\"']\s{0,9},\s{0,9}\\?[\"']key\\?[\"'"
        r"]"
        r"\s{0,9}:\s{0,9}\\?[\"']([0-9a-f]{32})(?![0-9a-f])",
        near=NUMBER,
    ),
    SecretRule(
        "header",
        ("authorization", "bearer"),
        r"(?i)(?:authorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}(?:[bfru]{0,2}[\"'])?"
        r"(?:bearer|basic|token|api-?(?:token|key))|(?<![a-z0-9_])bearer)"
        r"(?:[ \t]|%20){1,4}([A-Za-z0-9._~+/=-]{12,4000})",
        _header,
    ),
    SecretRule(
        "header-key",
        ("api-key", "x-auth", "-token", "-art-api"),
        r"(?i)(?:(?<![a-z0-9-])|(?<=\\[nrt]))(?:x-(?:api|auth|vault|goog-api|access)[a-z-]{0,20}"
        r"|private-token|job-token|api-key|x-jfrog-art-api)[\"']?"
        r"[ \t]{0,4}:[ \t]{0,4}[\"']?([^\s\"',;<>(){}]{8,400})",
        looks_chosen,
        near=NUMBER,
    ),
    SecretRule(
        "curl",
        ("curl",),
        rf"curl(?:[ \t]{{1,4}}[^\s]{{1,60}}){{0,6}}?[ \t]{{1,4}}(?:{JOINED}[uU]|--user|--proxy-user)[ \t=]{{0,3}}"
        r"(?P<before>[\"']?[^\s:\"'$]{0,60}:(?!//)[\"']?)(?P<secret>[^\s\"']{4,200})",
        _given_login,
    ),
    SecretRule(  # in a line of its own
        "curl-user",
        (" --user",),
        r"(?<![^\n])[ \t]{1,40}--user[ \t=]{1,3}(?P<before>[\"']?[^\s:\"'$]{0,60}:(?!//))"
        r"(?P<secret>[^\s\"']{8,200})",
        _chosen_login,
        near=NUMBER,
    ),
    SecretRule(  # the user is the token
        "curl-token",
        ("curl",),
        rf"curl(?:[ \t]{{1,4}}[^\s]{{1,60}}){{0,6}}?[ \t]{{1,4}}(?:{JOINED}u|--user)[ \t=]{{1,3}}"
        r"[\"']?([^\s:\"'$]{8,100}):(?![^\s\"'\\])",
        _chosen_login,
        near=NUMBER,
    ),
    SecretRule(
        "curl-header",
        ("key", "token", "secret", "pass", "auth", "cookie"),
        r"(?:-H|--header)[ \t=]{1,4}[\"'](?P<name>[A-Za-z][A-Za-z0-9-]{2,40}):[ \t]{0,4}"
        r"(?:[A-Za-z][A-Za-z-]{2,20}[ \t]{1,4})?(?P<secret>[^\s\"'\\$]{10,4000})",
        _header_value,
        near=r"(?:-H|--header)[ \t=]{1,4}[\"']",
    ),
    SecretRule(  # of Bundler, for the server that the name spells
        "bundler",
        ("bundle_",),
        r"BUNDLE_[A-Z0-9_]{1,80}__[A-Z0-9_]{1,60}[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?"
        r"([A-Za-z0-9_-]{4,100}:[^\s\"';&:/]{4,100})",
        is_real_login,
        run=True,
    ),
    SecretRule(
        "mysql",
        ("mysql", "mariadb"),
        r"(?:mysql(?:dump|admin|import)?|mariadb(?:-[a-z]{1,9})?)(?:[ \t]{1,4}[^\s]{1,60}){0,6}?["
        r" \t]{1,4}-p(?P<before>[\"']?)(?P<secret>[^\s\"']{4,100})",
        _chosen_login,
    ),
)
