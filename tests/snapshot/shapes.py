"""Shapes of secrets, from which as many made-up ones are drawn as a test needs.

In a shape `{a20}` stands for 20 letters and digits, `{h32}` for hexadecimal, `{u16}` for capitals and digits of base32,
`{n43}` for the same in small letters, `{w20}` for letters, digits, `-` and `_`, `{d9}` for digits, `{l9}` for small
letters and digits, `{b60}` for base64, `{p16}` for a password, and `{uuid}`. So no scanner takes this file for a leak.
"""

from __future__ import annotations

import base64
import random
import re
import string

ALNUM = string.ascii_letters + string.digits
LETTERS = {
    "a": ALNUM, "h": "0123456789abcdef", "u": string.ascii_uppercase + "234567", "w": ALNUM + "-_",
    "d": string.digits, "n": string.ascii_lowercase + "234567",
    "l": string.ascii_lowercase + string.digits, "b": ALNUM + "+/",
    "p": ALNUM + "!#%*+=?",
}  # fmt: skip

# By the rule that finds it, and how: "%" is what an innocent name holds.
TOKENS = {
    "aws-access-key": "AKIA{u16}", "huggingface": "hf_{a34}", "github": "ghp_{a36}", "gitlab": "glpat-{w20}",
    "slack": "xoxb-{d12}-{d12}-{a24}", "slack-webhook": "https://hooks.slack.com/services/T{u10}/B{u10}/{a24}",
    "discord-webhook": "https://discord.com/api/webhooks/{d18}/{w68}",
    "teams-webhook": "https://acme.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{h32}/{uuid}",
    "anthropic": "sk-ant-api03-{w93}AA", "openai": "sk-proj-{w74}T3BlbkFJ{w74}", "openai-like": "sk-{h32}",
    "groq": "gsk_{a52}", "replicate": "r8_{a37}", "langsmith": "lsv2_pt_{h32}_{h10}", "pinecone": "pcsk_{a5}_{a63}",
    "wandb-key": "wandb_v1_{a77}", "nvidia": "nvapi-{w64}", "perplexity": "pplx-{a48}", "xai": "xai-{a80}",
    "cerebras": "csk-{l48}", "fireworks": "fw_{a24}", "together": "tgp_v1_{w43}", "tavily": "tvly-dev-{a32}",
    "jina": "jina_{h32}{w28}", "elevenlabs": "sk_{h48}", "runpod": "rpa_{u42}", "kaggle": "KGAT_{h32}",
    "neptune": "eyJhcGlfYWRkcmVzcyI6{a120}", "prefect": "pnu_{a36}", "databricks": "dapi{h32}",
    "google": "AIza{w35}", "google-client": "GOCSPX-{w28}", "google-access": "ya29.{w120}",
    "google-refresh": "1//0{w60}", "azure-client": "{a3}8Q~{a34}", "azure-storage": "{b76}+ASt{b6}==",
    "azure-devops": "{a76}AZDO{a4}", "digitalocean": "dop_v1_{h64}", "vault": "hvs.{w90}",
    "terraform": "{a14}.atlasv1.{w66}", "grafana": "glsa_{a32}_{h8}", "tailscale": "tskey-auth-{a17}-{a32}",
    "age": "AGE-SECRET-KEY-1{u58}", "sendgrid": "SG.{w22}.{w43}", "mailgun": "key-{h32}", "mailchimp": "{h32}-us12",
    "index-upload": "pypi-AgEIcHlwaS5vcmc{w120}", "docker": "dckr_pat_{w27}", "npm": "npm_{a36}",
    "rubygems": "rubygems_{h48}", "artifactory": "AKCp{a69}", "telegram": "{d9}:AA{w33}", "stripe": "sk_live_{a32}",
    "square": "sq0csp-{w43}", "shopify": "shpat_{h32}", "atlassian": "ATATT3{w180}", "linear": "lin_api_{a40}",
    "notion": "ntn_{a46}", "figma": "figd_{w40}", "postman": "PMAK-{h24}-{h34}", "doppler": "dp.pt.{a43}",
    "newrelic": "NRAK-{u27}", "sentry": "sntryu_{h64}", "dynatrace": "dt0c01.{u24}.{u64}", "supabase": "sbp_{h40}",
    "planetscale": "pscale_tkn_{w43}", "pulumi": "pul-{h40}", "cloudflare": "cfut_{a40}{h8}",
    "onepassword": "ops_eyJ{a400}", "openshift": "sha256~{w43}", "alibaba": "LTAI{a20}", "tencent": "AKID{a32}",
    "firebase": "{w22}:APA91b{w134}", "jwt": "eyJ{a30}.eyJ{a80}.{w43}",
    "conda": "https://conda.example/t/ab-{uuid}/main",
    "onepassword-key": "A3-{u6}-{u11}-{u5}-{u5}-{u5}", "aws-bedrock": "ABSK{a120}", "facebook": "EAACE{a120}",
    "fly": "fm2_{a160}", "heroku": "HRKU-AA{w58}", "infracost": "ico-{a32}", "intra42": "s-s4t2ud-{h64}",
    "sonar": "sqp_{a40}", "sourcegraph": "sgp_{h16}_{h40}", "square-access": "EAAA{w60}", "adobe": "p8e-{l32}",
    "easypost": "EZAK{a54}", "aws-session": "IQoJb3JpZ2luX2Vj{b400}=", "nuget": "oy2{n43}", "crates": "cio{a32}",
    "modal": "as-{a22}", "mapbox": "sk.eyJ{a90}.{w22}",
    "airtable": "pat{a14}.{h64}", "clojars": "CLOJARS_{l60}", "cloudflare-origin": "v1.0-{h24}-{h146}",
    "contentful": "CFPAT-{w43}", "defined-networking": "dnkey-{a26}-{a52}", "duffel": "duffel_live_{w43}",
    "flutterwave": "FLWSECK_TEST-{d32}-X", "frameio": "fio-u-{w64}", "grafana-key": "eyJrIjoi{a88}",
    "hubspot": "pat-na1-{uuid}", "netlify": "nfp_{a36}", "newrelic-insert": "NRII-{a32}",
    "newrelic-license": "{h36}NRAL", "readme": "rdme_{l70}", "scalingo": "tk-us-{a48}", "brevo": "xkeysib-{h64}-{a16}",
    "settlemint": "sm_pat_{a16}", "shippo": "shippo_live_{h40}", "slack-browser": "xoxc-{d12}-{d12}-{d12}-{h64}",
    "typeform": "tfp_{a59}", "yandex": "AQVN{w35}", "resend": "re_{a8}_{a24}",
    "vercel-blob": "vercel_blob_rw_{a16}_{a30}", "neon": "napi_{l64}", "render": "rnd_{a32}", "buildkite": "bkua_{h40}",
    "circleci": "CCIPAT_{a22}_{h40}", "langsmith-old": "ls__{h32}", "anyscale": "esecret_{l40}",
    "lambda": "secret_train_{h32}.{a32}", "notion-old": "secret_{a43}", "voyage": "pa-{a43}", "e2b": "e2b_{h40}",
    "google-hmac": "GOOG1E{u55}", "azure-identifiable": "{a42}AzSeA{a5}", "amazon-mws": "amzn.mws.{uuid}",
    "databricks-oauth": "dose{h32}", "mongodb-atlas": "mdb_sa_sk_{a40}", "posthog": "phx_{a43}", "aiven": "AVNS_{a19}",
    "baidu": "bce-v3/ALTAK-{a21}/{h40}", "volcengine": "AKLT{a43}", "snyk": "snyk_uat.{h8}.{a40}",
    "atlassian-client": "ATCTT3xFfGN0{a80}", "clickhouse": "4b1d{a38}", "octopus": "API-{u26}",
    "swarm": "SWMTKN-1-{l50}-{l25}", "dropbox": "sl.{w135}", "paseto": "v2.local.{w150}",
    "google-auth": "AQ.Ab8RN6{w44}", "discord": "MT{a24}.{w6}.{w38}", "vercel": "vcp_{w50}{a6}",
    "adafruit": "aio_{a28}",
    "aikido": "AIK_SECRET_{a64}", "apify": "apify_api_{a36}", "asana": "1/{d16}:{h32}",
    "authress": "sc_{a20}.{l5}.acc-{l16}.{a60}", "brave": "BSA{a28}", "browserbase": "bb_live_{w27}",
    "canva": "cnvca{w51}", "cloudsmith": "csa_{h30}{a6}", "cockroach": "CCDB1_{a22}_{a40}", "coderabbit": "cr-{h58}",
    "configcat": "configcat-sdk-1/{w22}/{w22}", "cursor": "key_{h64}", "datastax": "AstraCS:{a24}:{h64}",
    "deno": "ddp_{a36}", "dependency-track": "odt_{a32}", "devcycle": "dvc_server_{a32}", "devin": "cog_{n52}",
    "elastic": "essu_{w100}", "endor": "endr+{a16}", "fal": "{uuid}:{h32}", "firecrawl": "fc-{h32}",
    "fleetbase": "flb_live_{a20}", "friendli": "flp_{a46}", "harness": "pat.{w22}.{h24}.{a20}", "ionic": "ion_{a42}",
    "launchdarkly": "api-{h8}-{h4}-4{h3}-{h4}-{h12}", "lichess": "lip_{a20}", "mailersend": "mlsn.{h64}",
    "maxmind": "{a6}_{a29}_mmk", "mercury": "mercury_production_wma_{a44}_yrucrem",
    "mergify": "mergify_application_key_{a64}", "nightfall": "NF-{a32}", "ntfy": "tk_{l29}",
    "onesignal": "os_v2_app_{n103}", "paddle": "pdl_live_apikey_{l26}_{a22}_{a3}", "pagarme": "ak_live_{a30}",
    "pinterest": "pina_{w80}", "polar": "polar_oat_{a43}", "ramp": "ramp_sec_{a48}", "riot": "RGAPI-{uuid}",
    "rootly": "rootly_{h64}", "salesforce": "5Aep861{a80}", "samsara": "samsara_api_{a30}", "scale": "live_{h32}",
    "scrapfly": "scp-live-{h32}", "segment": "sgp_{a64}", "telnyx": "KEY{w55}", "thunderstore": "tss_{a40}",
    "ubidots": "BBFF-{a30}", "unkey": "unkey_{a22}", "upcloud": "ucat_{a26}", "val-town": "vtwn_{a32}",
    "voiceflow": "VF.DM.{h24}.{a16}", "wakatime": "waka_{uuid}",
    "zapier-webhook": "https://hooks.zapier.com/hooks/catch/{d8}/{l12}", "zhipu": "{h32}.{a16}",
    "zoho": "1000.{h32}.{h32}", "zuplo": "zpka_{h32}_{h8}",
}  # fmt: skip
PEM = "-----BEGIN {kind}PRIVATE " + "KEY-----\n{b64}\n{b64}\n{b40}\n-----END {kind}PRIVATE " + "KEY-----"
ENCODED_PEM = "base64:-----BEGIN PRIVATE " + "KEY-----\n{b64}\n{b64}\n-----END PRIVATE " + "KEY-----\n"
CONTEXTS = {
    "aws-secret-key": "aws_secret_access_key = {b40}", "aws-secret-value": "{b40}",
    "key-block": "-----BEGIN OpenVPN Static key V1-----\n{h32}\n{h32}\n", "crypt-hash": "ada:$6${a16}${a86}:19000",
    "private-key": PEM.replace("{kind}", "RSA "), "encoded-key": ENCODED_PEM,
    "encoded": "base64:DB_PASSWORD={p20}", "azure-key": "AccountName=x;AccountKey={b86}==;EndpointSuffix=y",
    "azure-sas": "https://x.blob.core.example/c?sv=2024-08-04&se=2027-01-01&sr=c&sig={a41}%2B{a2}%3D",
    "wandb": "wandb login {h40}", "url-credential": "redis://:{a16}@cache:6379/0",
    "url-token": "https://{h32}@o1.example/2",
    "url-encoded": "https://ada%3A{a16}%40h.example/x", "url-slash": "https:/ada:{a16}@h.example/x",
    "index-path": "https://dl.cloudsmith.io/x{a13}7k/org/repo/python/simple",
    "url-parameter": "https://x.example/v1?access_token={a32}",
    "connection": "jdbc:postgresql://db:5432/x?user=ada&password={a16}",
    "netrc": "machine api.example login ada password {a24}",
    "docker-auth": '{"auths": {"r.example": {"auth": "login:"}}}',
    "npm-auth": "//registry.example/:_authToken={uuid}", "kaggle-json": '{"username":"ada","key":"{h32}"}',
    "header": "Authorization: Bearer {a40}", "header-key": "X-API-Key: {a32}",
    "curl": "curl -u ada:{a16} https://x.example",
    "curl-token": "curl -s --user {a24}: https://x.example", "curl-header": "curl -H 'X-Acme-ApiKey: {uuid}' x",
    "bundler": "BUNDLE_GEMS__ACME__COM={a8}:{a16}", "assigned-text": 'WORKER_KEY = "{h32}"',
    "mysql": "mysql -u root -p{a16} runs", "sshpass": "sshpass -p {a12} ssh ada@host",
    "openssh-key": "b3BlbnNzaC1rZXktdjE{b51}\n{b70}\n{b70}\n{b40}==",
    "registry-login": "docker login -u ada -p {p16} r.example", "ldap": "ldapsearch -x -D cn=ada -w {p16} cn=x",
    "minio": "mc alias set store https://s3.example {a10} {b40}", "samba": "smbclient -U ada%{p16} //h/share",
    "redis": "redis-cli -h cache -a {p16} ping", "sqlcmd": "sqlcmd -S db.example -U ada -P {p16} -Q x",
    "mongo": "mongodump --host db -u ada -p {p16} --db runs", "twine": "twine upload -u ada -p {p16} dist/x.whl",
    "htpasswd": "htpasswd -cb users.txt ada {p16}", "poetry": "poetry config http-basic.own ada {p16}",
    "lftp": "lftp -u ada,{p16} sftp://h.example", "archive-7z": "7z x -y -p{p16} a.7z",
    "archive-zip": "unzip -o -P {p16} a.zip", "openssl": "openssl enc -d -aes-256-cbc -pass pass:{p16} -in a",
    "curl-cookie": "curl -s -b session={a32} https://x.example",
    "libpq": "host=db.example user=ada password={a16} dbname=runs", "libpq-first": "password={a16} host=db.example",
    "oracle": "ada/{a16}@//db.example:1521/runs", "oracle-command": "sqlplus -S ada/{a16}@runs",
    "oracle-address": "jdbc:oracle:thin:ada/{a16}@db.example:1522:x", "url-quoted": "amqp://ada:{a12}'{a4}@h.example/x",
    "option": "tool --password {a16} x",
    "connection-encoded": "mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BUID%3Dsa%3BPWD%3D{a16}",
    "url-relative": "//ada:{a16}@h.example/x", "oauth-login": "{a36}:x-oauth-basic",
    "auth-login": "HTTP_AUTH=ada:{a16}",
    "host-login": "ada:{a16}@proxy.example:3128", "header-scheme": "ApiKey {a43}==",
    "header-honeycomb": "x-honeycomb-team={a22}", "twilio": "AC0123456789abcdef0123456789abcdef:{h32}",
    "client-password": "cqlsh -u ada -p {p16} h.example", "archive-rar": "unrar x -p{p16} a.rar",
    "openssl-key": "openssl enc -d -aes-256-cbc -k {p16} -in a",
    "command-list": "run(['mysql', '-u', user, '-p{a16}', 'runs'])", "login-call": 's.login("ada", "{a16}")',
    "connect-call": "FTP(host, user, '{a16}')", "keyring-call": "keyring.set_password('svc', 'ada', '{a16}')",
    "fernet": "Fernet(b'{w43}=')", "said-password": "echo {a16} | docker login -u ada --password-stdin r.example",
    "said-login": "printf 'ada:{p16}' | chpasswd", "here-password": "sudo -S apt-get update <<< '{p16}'",
    "here-login": "chpasswd <<< 'ada:{p16}'", "pgpass": "db.example:5432:runs:ada:{p16}",
    "client-setting": "[client]\nuser = ada\npassword = {a16}",
    "assigned-inside": "train.py lr=1 db.password={a16} seed=2",
    "braintree": "access_token$production${l16}${h32}", "option-auth": "tool --auth {a24} x",
    "client-capital": "ipmitool -I lanplus -H h.example -U ada -P {a16} power status",
    "azure-login": "az login --service-principal -u ada -p {p16}", "httpie": "http -a ada:{a16} https://x.example",
    "ngrok": "ngrok config add-authtoken {a27}_{a21}",
    "from-literal": "kubectl create secret generic x --from-literal=note={a16}",
    "element-named": ' <add key="DbPassword" value="{a16}"/>', "assigned-wrapped": 'password = (\n    "{a16}"\n)',
    "assigned-lines": "<password>\n  {a16}\n</password>",
    "assigned": 'client_secret = "{a32}"', "assigned-variable": "export DB_PASS={a16}",
    "assigned-entry": "db_password: {a16}", "assigned-setting": "api_key = {a32}",
}  # fmt: skip
SHAPES = {**TOKENS, **CONTEXTS}

# What is written in another way, and found by a rule above.
MORE = {
    "literal-named": "kubectl create secret generic x --from-literal=user=ada \\\n --from-literal=password='{p16}'",
    "r-text": 'password <- "{a16}"', "r-outer": "db_password <<- '{a16}'",
    "r-word": 'DB_PASSWORD <- "SummerCoffee{d4}"',
    "go-text": "apiKey := `{a24}`", "wrapped-typed": 'API_KEY: str = (\n    "{a32}"\n)',
    "wrapped-argument": 'connect(\n    password=(\n        "{a16}"\n    ),\n)',
    "wrapped-next": 'const apiKey =\n  "{a24}";',
    "wrapped-notebook": '    "password = (\\n",\n    "    \\"{a16}\\"\\n",\n',
    "wrapped-patch": '+token = (\n+    "{a24}"\n+)',
    "wrapped-shell": 'API_KEY = \\\n    "{a24}"', "lines-yaml": "db_password: >-\n  {a16}\n",
    "lines-quotes": 'password = """\n{a24}\n"""', "apache": "  SetEnv DB_PASSWORD {a16}",
    "nginx": "fastcgi_param API_KEY {a24};", "element-typed": '<x:password type="text">{a12}&amp;{a12}</x:password>',
    "attribute": '<server user="ada" password="{a16}"/>', "property": '<property name="db.password">{a16}</property>',
    "plink": "plink -pw {a16} ada@h.example", "psexec": "PsExec.exe \\\\h -u ada -p {a16} cmd",
    "mosquitto": "mosquitto_pub -h h.example -u ada -P {a16} -t x",
    "beeline": "beeline -u jdbc:hive2://h -n ada -p {a16}",
    "gradio-auth": "webui --gradio-auth ada:{a16}", "auth-key": "tailscale up --auth-key={a24}",
    "ngrok-old": "!./ngrok authtoken {a27}_{a21}", "ngrok-option": "ngrok http 80 --authtoken {a27}_{a21}",
    "list-ngrok": "run(['ngrok', 'config', 'add-authtoken', '{a27}_{a21}'])",
    "list-ipmitool": "['ipmitool', '-U', 'ada', '-P', '{a16}']", "option-java": "keytool -storepass {a16} -list",
    "option-system": "mvn -Dsonar.password={a16} verify",
    "option-mount": "mount -o username=ada,password={a16} //h/s /m",
    "option-set": "helm install x --set=db.password={a16}",
    "option-short": "tool --pwd={p16} x", "wandb-host": "wandb login --relogin --host=https://w.example {h40}",
    "rabbitmq": "rabbitmqadmin -u ada -p {p16} list queues", "list-rar": "['rar', 'a', '-hp{a16}', 'a.rar']",
    "curl-joined": "curl -fsSLu ada:{a16} https://x.example",
    "curl-joined-cookie": "curl -sb session={a32} https://x.example",
    "ldap-joined": "ldapsearch -xw {p16} cn=x", "unzip-joined": "unzip -oP {p16} a.zip",
    "redis-pass": "valkey-cli --pass {p16} ping", "bcp-joined": "bcp runs out x -U ada -P{p16}",
    "mongosh": "mongosh -u ada -p '{p16}' runs", "htpasswd-shown": "htpasswd -nbB -C 10 ada {p16}",
    "header-artifactory": "X-JFrog-Art-Api: {a40}",
    "zip-joined": "zip -9rP {p16} a.zip x",
    "curl-second-cookie": "curl -b 'theme=dark; sid={a32}' x", "openssl-long": "openssl pkcs12 -password pass:{p16}",
    "minio-option": "mc alias set --api S3v4 store https://s3.example {a10} {a40}",
    "minio-late-option": "mc --insecure alias set store https://s3.example --api S3v4 {a10} {a40}",
    "url-bracket": "redis://:{a12}<{a4}@cache:6379", "url-double": "postgres://ada:{a16}\"@h.example/x",
    "url-greater": "https://ada:{a12}>{a4}@h.example", "oracle-import": "impdp ada/{a16} full=y",
    "podman-login": "podman login --username ada -p={p16} r.example",
    "openssl-in": "openssl rsa -passin pass:{p16}",
    "minio-old": "mc config host add store http://s3.example:9000 {a10} {a40}",
    "oracle-port": "ada/{a16}@db.example:1521/x",
    "curl-cookies": "curl --cookie 'sid={a32}; theme=dark' x", "cookie-header": "curl -H 'Cookie: sid={a32}' x",
    "zip": "zip -r -P {p16} a.zip folder", "modal-id": "ak-{a22}", "aws-session-old": "FwoGZXIvYXdz{b300}==",
    "openssh-line": 'KEY: "b3BlbnNzaC1rZXktdjE{b51}\\n{b70}\\n{b70}\\n{b40}"',
    "url-encoded-twice": "https://ada%253a{a16}%2540h.example/x", "url-slashes": "https:///ada:{a16}@h.example/x",
    "curl-user": "  --user ada:{a16}", "openrouter": "sk-or-v1-{h64}", "github-fine": "github_pat_{a22}_{a59}",
    "redis-acl": "rediss://default:{a24}@h.example:6380",
    "dsn": "postgresql://ada:{a20}@db.example/runs", "odbc": "Driver={X};Server=s;Uid=ada;Pwd={a16};",
    "service-account": '{"type": "service_account", "private_key": "-----BEGIN PRIVATE '
    + 'KEY-----\\n{b64}\\n"}',
    "kubeconfig": "client-key-data: encoded-pem", "slack-app": "xapp-1-A{u10}-{d13}-{h64}",
    "openssh": PEM.replace("{kind}", "OPENSSH "),
    "sentry-dsn": "https://{h32}@o123.ingest.example/45", "aws-session": "AWS_SESSION_TOKEN={b200}",
    "wandb-env": "WANDB_API_KEY={h40}", "gitlab-runner": "glrt-{w20}", "vault-batch": "hvb.{w150}",
    "assigned-typed": 'api_key: str = "{a32}"', "typed-optional": "api_key: Optional[str] = field(default='{a32}')",
    "assigned-call": 'api_key=SecretStr("{a32}")', "assigned-block": 'password = """{a32}"""',
    "option-word": '["--api-key", "{a32}"]', "option-default": 'add_argument("--api-key", type=str, default="{a32}")',
    "set-variable": "ENV WANDB_API_KEY {h40}", "set-notebook": "%env WANDB_API_KEY {h40}",
    "set-csh": "setenv WANDB_API_KEY {h40}", "set-fish": "set -x WANDB_API_KEY {h40}",
    "named-value": "- name: WANDB_API_KEY\n  value: {h40}",
    "named-json": '{"name": "WANDB_API_KEY", "value": "{h40}"}',
    "or-value": 'os.environ.get("API_KEY") or "{a32}"', "element": "<password>{a32}</password>",
    "url-encoded-whole": "https%3A%2F%2Fada%3A{a16}%40h.example%2Fx",
    "wandb-notebook": '"wandb.login(key=\\"{h40}\\")\\n"',
    "list-curl": "['curl', '-u', 'ada:{a16}']", "list-docker": 'Popen(("docker", "login", "-u", "ada", "-p", "{p16}"))',
    "list-lines": 'run([\n    "/usr/bin/mongodump",\n    "-u", "ada",\n    "-p", "{a16}",\n])',
    "list-json": '{"args": ["redis-cli","-a","{a16}"]}', "list-notebook": '"run([\\"mysql\\", \\"-p{a16}\\"])\\n"',
    "list-inner": '["docker", "exec", "db", "mysql", "-p{a16}"]', "list-sshpass": "['sshpass', '-p', '{a16}', 'ssh']",
    "login-lines": 's.login(\n    os.environ["MAIL"],\n    "{a16}",\n)',
    "connect-shell": 'c.connect(h, 22, "ada", "{a16}")', "connect-named": "FTP_TLS(h, 'ada', passwd='{a16}')",
    "said-token": "printf '%s' \"{a16}\" | gh auth login --with-token",
    "said-sudo": "echo '{p16}' | sudo -S true", "said-word": "echo SummerCoffee{d4} | docker login --password-stdin",
    "said-root": 'echo "root:{p16}" | sudo chpasswd',
    "here-registry": "docker login -u ada --password-stdin r.example <<< {a16}", "pgpass-any": "*:*:*:ada:{a16}",
    "inside-query": 'get("https://x.example/v1?a=1&api_key={a24}&b=2")',
    "default-value": 'os.getenv("DB_PASSWORD", "{a16}")', "default-named": 'env("DB_PASSWORD", default="{a16}")',
    "or-variable": 'process.env.API_KEY || "{a32}"', "default-variable": "${DB_PASSWORD:-{a16}}",
    "assigned-format": 'api_key = f"{prefix}-{a32}"', "auth-pair": 'get(u, auth=("ada", "{a16}"))',
    "auth-call": 'HTTPBasicAuth("ada", "{a16}")', "header-format": 'headers={"Authorization": f"Token {a32}"}',
    "joined-name": "VNCPASS={a16}",
    "basic-header": "Authorization: Basic login:", "json-password": '{"host": "x", "password": "{a16}"}',
    "openssl-out": "openssl genrsa -passout pass:{p16}", "dockerfile-argument": "ARG GITHUB_PAT={a24}",
    "assigned-password": 'DB_PASSWORD = "SummerCoffee{d4}"', "short-name": "export DB_PSWD={a16}",
    "encoded-account": 'base64:{"type": "service_account", "private_key": "-----BEGIN PRIVATE '
    + 'KEY-----\\n{b64}\\n{b64}\\n"}',
    "encoded-auths": 'base64:{"auths": {"r.example": {"username": "ada", "password": "{a20}"}}}',
    "encoded-kubeconfig": "base64:apiVersion: v1\nusers:\n- name: ada\n  user:\n    token: {a40}\n",
}  # fmt: skip


# A digest and the name of a job look like these, so a variable with an innocent name keeps them.
ALIKE = {"hex-40": "{h40}", "uuid": "{uuid}"}


def fill(shape: str, source: random.Random) -> tuple[str, list[str]]:
    """Return a made-up secret of a shape, and the parts that must be nowhere."""
    parts: list[str] = []

    def draw(match: re.Match[str]) -> str:
        if match[0] == "{uuid}":
            text = "-".join("".join(source.choices("0123456789abcdef", k=n)) for n in (8, 4, 4, 4, 12))
        else:
            letters, number = LETTERS[match[1]], int(match[2])
            text = "".join(source.choices(letters, k=number))
            if number >= 12 and match[1] != "d":  # as nearly all are: with a letter and a digit
                text = (
                    text[:-2] + source.choice([c for c in letters if c.isalpha()]) + source.choice("234567")
                )
        if len(text) >= 12:
            parts.append(text)
        return text

    text = re.sub(r"\{(?:([ahuwdlbpn])(\d+)|uuid)\}", draw, shape)
    if "login:" in text and ("auth" in text.lower()):
        login = base64.b64encode(f"ada:{''.join(source.choices(ALNUM, k=18))}7".encode()).decode()
        text, parts = text.replace("login:", login), [login]
    if "encoded-pem" in text:
        pem, _ = fill(ENCODED_PEM, source)
        text, parts = text.replace("encoded-pem", pem), [pem[20:]]
    if text.startswith("base64:"):
        text = base64.b64encode(text[7:].encode()).decode()
        parts = [text[30:] if len(text) > 90 else text]
    return text, parts
