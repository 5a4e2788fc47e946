import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { builderImageOf } from "@svc/proto";
import { apexOf } from "@svc/proto/domains";
import { BadTokenKey, checkTokenPair } from "@svc/registry";
import { ownRegistry } from "./fleet/images/own.ts";
import { defaultApiUrl } from "./identity/githost/settings.ts";
import { type Settings, settings } from "./settings/schema.ts";
import type { Config, DnsWriterConfig, GithostConfig, ListenAddress } from "./settings/settings.ts";
import { isGuessable, unsafeSetting } from "./settings/unsafe.ts";

const absent = (value: unknown) => (value === "" ? undefined : value);

/** A setting is missing or wrong. The message names it and says what it should be. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

function listenAddress(text: string): ListenAddress {
  const at = text.lastIndexOf(":");
  return { host: text.slice(0, at).replace(/^\[|\]$/g, ""), port: Number(text.slice(at + 1)) };
}

function readFile(path: string, setting: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new ConfigError(`${setting}: cannot read ${path}`, { cause });
  }
}

/** The value, or the content of the file; both at once or neither is an error when `required`. */
function valueOrFile(s: Settings, name: "SVC_MASTER_KEY" | "SVC_AUTH_SECRET"): string {
  const file = s[`${name}_FILE`];
  const value = s[name] ?? (file === undefined ? undefined : readFile(file, `${name}_FILE`).toString("utf8").trim());
  if (value === undefined) throw new ConfigError(`set ${name}_FILE to a file that holds the secret (mode 0600)`);
  return value;
}

/** One key per line, base64 of 32 bytes, the newest first. */
function masterKeys(text: string): [Buffer, ...Buffer[]] {
  const keys = text
    .split(/\s+/)
    .filter((line) => line !== "")
    .map((line) => Buffer.from(line, "base64"));
  const [first, ...rest] = keys;
  if (first === undefined || keys.some((key) => key.length !== 32)) {
    throw new ConfigError("SVC_MASTER_KEY: each key must be the base64 of 32 random bytes");
  }
  // One that only opens what it sealed once may be on its way out.
  if (isGuessable(first)) {
    throw new ConfigError(
      "SVC_MASTER_KEY: the first key is not random; put one of `openssl rand -base64 32` before it, and run `svc-control rotate-key`",
    );
  }
  return [first, ...rest];
}

function githost(s: Settings): GithostConfig | null {
  const { SVC_GITHOST_CLIENT_ID: clientId, SVC_GITHOST_CLIENT_SECRET_FILE: secretFile } = s;
  if (clientId === undefined && secretFile === undefined) return null;
  if (clientId === undefined) throw new ConfigError("SVC_GITHOST_CLIENT_ID: set it to what the Git host gave you");
  if (secretFile === undefined) {
    throw new ConfigError("SVC_GITHOST_CLIENT_SECRET_FILE: set it to a file that holds the client secret (mode 0600)");
  }
  const { SVC_GITHOST_KIND: kind, SVC_GITHOST_URL: url } = s;
  if (kind === "gitea" && url === "https://github.com") {
    throw new ConfigError("SVC_GITHOST_URL: set it to the address of your Gitea");
  }
  return {
    kind,
    url,
    apiUrl: s.SVC_GITHOST_API_URL ?? defaultApiUrl(kind, url),
    clientId,
    clientSecret: readFile(secretFile, "SVC_GITHOST_CLIENT_SECRET_FILE").toString("utf8").trim(),
  };
}

const registryEventsSecretLengthMin = 32;

function registryEventsSecret({ SVC_REGISTRY_EVENTS_SECRET_FILE: file }: Settings): string | null {
  if (file === undefined) return null;
  const secret = readFile(file, "SVC_REGISTRY_EVENTS_SECRET_FILE").toString("utf8").trim();
  if (secret.length < registryEventsSecretLengthMin || isGuessable(Buffer.from(secret)))
    throw new ConfigError(
      `SVC_REGISTRY_EVENTS_SECRET_FILE: has to hold ${registryEventsSecretLengthMin} random characters or more`,
    );
  return secret;
}

/** What signs the tokens of the registry, which takes nothing else: without it a registry would have to take anybody. */
function registryTokenKey(now: Date, s: Settings): { key: string; certificate: string } {
  const read = (name: "SVC_REGISTRY_TOKEN_KEY_FILE" | "SVC_REGISTRY_TOKEN_CERT_FILE", what: string): string => {
    const file = s[name];
    if (file === undefined)
      throw new ConfigError(`${name}: set it to a PEM file with ${what}; deploy/env.example says how to make it`);
    return readFile(file, name).toString("utf8");
  };
  const pair = {
    key: read("SVC_REGISTRY_TOKEN_KEY_FILE", "the key that signs the registry's tokens (mode 0600)"),
    certificate: read("SVC_REGISTRY_TOKEN_CERT_FILE", "the certificate of that key, which the registry trusts"),
  };
  try {
    checkTokenPair(pair, now);
  } catch (cause) {
    if (cause instanceof BadTokenKey) throw new ConfigError(`SVC_REGISTRY_TOKEN_KEY_FILE: ${cause.message}`, { cause });
    throw cause;
  }
  return pair;
}

/** All of it or nothing: half of it would be a setting that does nothing. */
function offsite(s: Settings): Config["offsite"] {
  const needed = {
    SVC_S3_ENDPOINT: s.SVC_S3_ENDPOINT,
    SVC_S3_BUCKET: s.SVC_S3_BUCKET,
    SVC_S3_ACCESS_KEY_ID: s.SVC_S3_ACCESS_KEY_ID,
    SVC_S3_SECRET_ACCESS_KEY_FILE: s.SVC_S3_SECRET_ACCESS_KEY_FILE,
  };
  const { SVC_S3_ENDPOINT: endpoint, SVC_S3_BUCKET: bucket, SVC_S3_ACCESS_KEY_ID: accessKeyId } = needed;
  const { SVC_S3_SECRET_ACCESS_KEY_FILE: file } = needed;
  const given = [...Object.values(needed), s.SVC_S3_REGION, s.SVC_S3_PREFIX];
  if (given.every((value) => value === undefined)) return null;
  if (endpoint === undefined || bucket === undefined || accessKeyId === undefined || file === undefined) {
    const [missing] = Object.entries(needed).find(([, value]) => value === undefined) ?? [];
    throw new ConfigError(`${missing}: set it as well, or none of SVC_S3_…: nothing would be put anywhere`);
  }
  const secretAccessKey = readFile(file, "SVC_S3_SECRET_ACCESS_KEY_FILE").toString("utf8").trim();
  if (secretAccessKey === "") throw new ConfigError("SVC_S3_SECRET_ACCESS_KEY_FILE: there is nothing in it");
  // What servers take that know no regions.
  const { SVC_S3_REGION: region = "us-east-1", SVC_S3_PREFIX: prefix = "" } = s;
  return { endpoint, bucket, region, prefix, accessKeyId, secretAccessKey };
}

function acme(s: Settings, contentDomain: string): Config["acme"] {
  const { SVC_ACME_DIRECTORY: first, SVC_ACME_FALLBACK_DIRECTORY: second, SVC_ACME_ROOT_FILE: rootFile } = s;
  const dns = dnsWriter(s, contentDomain);
  if (first === undefined) {
    if (dns !== null)
      throw new ConfigError("SVC_ACME_DIRECTORY: set it, or none of SVC_ACME_DNS_…: nobody asks for records");
    if (second !== undefined) throw new ConfigError("SVC_ACME_DIRECTORY: set it to the CA that is asked first");
    return null;
  }
  return {
    directories: second === undefined ? [first] : [first, second],
    email: s.SVC_ACME_EMAIL ?? null,
    rootPem: rootFile === undefined ? null : readFile(rootFile, "SVC_ACME_ROOT_FILE").toString("utf8"),
    profile: s.SVC_ACME_PROFILE,
    wildcard: dns && { name: `*.${contentDomain}`, dns },
  };
}

const dnsPort = 53;
/** Of what hmac-sha256 is as good as with more. */
const dnsKeyBytesMin = 16;

/** A program, or all that messages to a server need; both would be two answers to one question. */
function dnsWriter(s: Settings, contentDomain: string): DnsWriterConfig | null {
  const {
    SVC_ACME_DNS_HOOK: program,
    SVC_ACME_DNS_SERVER: server,
    SVC_ACME_DNS_ZONE: zone,
    SVC_ACME_DNS_KEY_NAME: name,
    SVC_ACME_DNS_KEY_FILE: file,
  } = s;
  if ([server, zone, name, file].every((value) => value === undefined))
    return program === undefined ? null : { by: "hook", program };
  if (program !== undefined) throw new ConfigError("SVC_ACME_DNS_HOOK: set it, or the other ones of SVC_ACME_DNS_…");
  if (server === undefined || name === undefined || file === undefined) {
    const missing = server === undefined ? "SERVER" : name === undefined ? "KEY_NAME" : "KEY_FILE";
    throw new ConfigError(`SVC_ACME_DNS_${missing}: set it as well, or none of SVC_ACME_DNS_…`);
  }
  const secret = Buffer.from(readFile(file, "SVC_ACME_DNS_KEY_FILE").toString("utf8").trim(), "base64");
  if (secret.length < dnsKeyBytesMin)
    throw new ConfigError(`SVC_ACME_DNS_KEY_FILE: has to hold the base64 of ${dnsKeyBytesMin} bytes or more`);
  const hasPort = isIP(server) === 0 && /:\d+$/.test(server);
  const at = hasPort ? listenAddress(server) : { host: server.replace(/^\[|\]$/g, ""), port: dnsPort };
  return { by: "update", server: at, zone: (zone ?? apexOf(contentDomain)).toLowerCase(), key: { name, secret } };
}

const publicAddress = (host: string | undefined, port: number) => (host === undefined ? null : { host, port });

/** Reads and checks every setting; throws `ConfigError` naming the first that is wrong. Unknown SVC_ settings of other programs are ignored. */
export function readConfig(now: Date, env: Readonly<Record<string, string | undefined>>): Config {
  const known = Object.keys(settings.shape);
  const result = settings.safeParse(
    Object.fromEntries(known.filter((key) => absent(env[key]) !== undefined).map((key) => [key, env[key]])),
  );
  if (!result.success) {
    const issue = result.error.issues[0];
    throw new ConfigError(`${issue?.path.join(".") ?? "settings"}: ${issue?.message ?? "invalid"}`);
  }
  const s = result.data;
  const unsafe = unsafeSetting(s);
  if (unsafe !== null) throw new ConfigError(unsafe);
  const authSecret = valueOrFile(s, "SVC_AUTH_SECRET");
  if (authSecret.length < 32 || isGuessable(Buffer.from(authSecret)))
    throw new ConfigError("SVC_AUTH_SECRET: at least 32 characters of real randomness");
  const gitHost = githost(s);
  const content = new URL(s.SVC_CONTENT_URL);
  return {
    apiListen: listenAddress(s.SVC_API_LISTEN),
    apiUrl: new URL(s.SVC_API_URL).origin,
    trustProxy: s.SVC_TRUST_PROXY,
    databaseUrl: s.SVC_DATABASE_URL,
    etcd: {
      endpoints: s.SVC_ETCD_ENDPOINTS,
      tls:
        s.SVC_ETCD_CA_FILE === undefined
          ? null
          : {
              ca: readFile(s.SVC_ETCD_CA_FILE, "SVC_ETCD_CA_FILE"),
              ...(s.SVC_ETCD_CERT_FILE && { cert: readFile(s.SVC_ETCD_CERT_FILE, "SVC_ETCD_CERT_FILE") }),
              ...(s.SVC_ETCD_KEY_FILE && { key: readFile(s.SVC_ETCD_KEY_FILE, "SVC_ETCD_KEY_FILE") }),
            },
    },
    linkListen: listenAddress(s.SVC_LINK_LISTEN),
    enrollListen: listenAddress(s.SVC_ENROLL_LISTEN),
    metricsListen: s.SVC_METRICS_LISTEN === undefined ? null : listenAddress(s.SVC_METRICS_LISTEN),
    content: {
      scheme: content.protocol === "https:" ? "https" : "http",
      domain: content.hostname,
      port: content.port === "" ? "" : `:${content.port}`,
    },
    domains: {
      dnsServers: s.SVC_DNS_SERVERS,
      edgeHost: (s.SVC_EDGE_HOST ?? `edge.${content.hostname}`).toLowerCase(),
      edgeAddresses: s.SVC_EDGE_ADDRESSES,
      cdnRanges: s.SVC_CDN_RANGES,
    },
    acme: acme(s, content.hostname),
    registry: {
      url: new URL(s.SVC_REGISTRY_URL).origin,
      publicHost: s.SVC_REGISTRY_PUBLIC_URL === undefined ? null : ownRegistry(s.SVC_REGISTRY_PUBLIC_URL).host,
      tokenKey: registryTokenKey(now, s),
      eventsSecret: registryEventsSecret(s),
    },
    registryAllow: s.SVC_REGISTRY_ALLOW,
    webhookAllow: s.SVC_WEBHOOK_ALLOW,
    masterKeys: masterKeys(valueOrFile(s, "SVC_MASTER_KEY")),
    authSecret,
    signup: s.SVC_SIGNUP,
    mail: {
      from: s.SVC_MAIL_FROM,
      ...(s.SVC_SMTP_URL !== undefined && { smtpUrl: s.SVC_SMTP_URL }),
      ...(s.SVC_OUTBOX_DIR !== undefined && { outboxDir: s.SVC_OUTBOX_DIR }),
    },
    ...(gitHost && { githost: gitHost }),
    baseImageNode: s.SVC_BASE_IMAGE_NODE,
    builderImageNode: builderImageOf(s.SVC_BASE_IMAGE_NODE, s.SVC_BUILDER_IMAGE_NODE),
    buildCaBundle:
      s.SVC_BUILD_CA_FILE === undefined ? "" : readFile(s.SVC_BUILD_CA_FILE, "SVC_BUILD_CA_FILE").toString("utf8"),
    captureImage: s.SVC_CAPTURE_IMAGE,
    databases: {
      images: { postgres: s.SVC_DB_IMAGE_POSTGRES, mariadb: s.SVC_DB_IMAGE_MARIADB },
      copies: s.SVC_DB_COPIES,
      mariadb: s.SVC_MARIADB === "on",
      public: {
        postgres: publicAddress(s.SVC_DB_PUBLIC_HOST, s.SVC_DB_PUBLIC_PORT),
        mariadb: publicAddress(s.SVC_MARIADB_PUBLIC_HOST, s.SVC_MARIADB_PUBLIC_PORT),
      },
    },
    offsite: offsite(s),
    schedulerEnabled: s.SVC_CLUSTER_SCHEDULER === "on",
    drainMs: Math.round(s.SVC_DRAIN_SECONDS * 1000),
    previewIdleDays: s.SVC_PREVIEW_IDLE_DAYS,
    analytics: s.SVC_ANALYTICS === "on",
    logLevel: s.SVC_LOG_LEVEL,
  };
}
