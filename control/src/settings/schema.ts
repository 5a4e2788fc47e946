import { isIP } from "node:net";
import { isAbsolute } from "node:path";
import { databasePorts, defaultBaseImage, defaultDatabaseImages } from "@svc/proto";
import { isPrivateListen, privateListenHint } from "@svc/telemetry";
import { z } from "zod";
import { cdnRanges } from "./cdn-ranges.ts";
import { plaintextServices } from "./plaintext.ts";

const listen = z.string().regex(/^[^\s/]+:\d{1,5}$/, "must be host:port");

/** Without a port, a scheme, or anything that an address would have to escape. */
const host = z
  .string()
  .refine(
    (text) => isIP(text) !== 0 || /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/i.test(text),
    "must be the name or the address of a host",
  );
const port = z.coerce.number().int().min(1).max(65_535);

export const origin = z.url({ protocol: /^https?$/ });

/** May have a path: hosts are served below one. */
const githostUrl = z.url({ protocol: /^https?$/ }).transform((text) => text.replace(/\/+$/, ""));

const list = z.string().transform((text) =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== ""),
);

/** Addresses, and networks in CIDR notation. */
const areNetworks = (items: readonly string[]): boolean =>
  items.every((item) => {
    const [address = "", bits, ...rest] = item.split("/");
    const version = isIP(address);
    const isNetwork = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
    return version !== 0 && isNetwork && rest.length === 0;
  });

/** The same, or the name of those of this machine. */
const areProxies = (items: readonly string[]): boolean => areNetworks(items.filter((item) => item !== "loopback"));

const dnsServersMax = 4;
const areServers = (items: readonly string[]): boolean =>
  items.length <= dnsServersMax &&
  items.every((item) => {
    const [, inBrackets, bare, portText] = /^(?:\[([^\]]+)\]|([^[\]]+?))(?::(\d{1,5}))?$/.exec(item) ?? [];
    if (isIP(item) === 6) return true;
    if (portText !== undefined && (Number(portText) < 1 || Number(portText) > 65_535)) return false;
    return inBrackets === undefined ? isIP(bare ?? "") === 4 : isIP(inBrackets) === 6;
  });

/** Of a key that a DNS server knows: letters, digits, and what else keys are named with. */
const keyName = z.string().regex(/^[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63}){0,8}\.?$/, "must be the name of a key");

const directory = z.url({ protocol: /^https$/ });

/** Whatever else a URL may have is taken for nothing, and a password in it would be shown where the member is named. */
const areMembers = (items: readonly string[]): boolean =>
  items.length > 0 &&
  items.every((item) => {
    const url = /^https?:\/\//i.test(item) ? URL.parse(item) : null;
    return url !== null && url.username === "" && url.password === "";
  });

/** What the names of objects begin with: of letters that no server takes for its own, and with a slash at its end. */
const objectPrefix = z
  .string()
  .max(200)
  .regex(/^[A-Za-z0-9_.-]+(\/[A-Za-z0-9_.-]+)*\/?$/, "must be names with slashes between them, such as svc/production")
  .refine((text) => !text.split("/").some((part) => part === "." || part === ".."), "must not have . or .. in it")
  .transform((text) => (text.endsWith("/") ? text : `${text}/`));

/** Every setting of control. Defaults suit one machine; see deploy/env.example. */
export const settings = z.strictObject({
  SVC_API_LISTEN: listen.default("127.0.0.1:4000"),
  SVC_API_URL: origin.default("http://127.0.0.1:4000"),
  SVC_TRUST_PROXY: list.default(["loopback"]).refine(areProxies, "must be addresses or networks, such as 10.0.0.0/8"),
  SVC_DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }),
  SVC_ETCD_ENDPOINTS: list
    .default(["http://127.0.0.1:2379"])
    .refine(areMembers, "each must be an http:// or https:// URL without a user or password"),
  SVC_ETCD_CA_FILE: z.string().optional(),
  SVC_ETCD_CERT_FILE: z.string().optional(),
  SVC_ETCD_KEY_FILE: z.string().optional(),
  SVC_LINK_LISTEN: listen.default("127.0.0.1:7443"),
  SVC_ENROLL_LISTEN: listen.default("127.0.0.1:7444"),
  SVC_METRICS_LISTEN: listen.refine(isPrivateListen, privateListenHint).optional(),
  SVC_CONTENT_URL: origin.default("http://svc.localhost:8080"),
  SVC_DNS_SERVERS: list
    .default([])
    .refine(areServers, "must be at most four addresses, each with a port or without: 10.0.0.53, [fd00::53]:5353"),
  SVC_EDGE_HOST: host.optional(),
  SVC_EDGE_ADDRESSES: list
    .default([])
    .refine((items) => items.every((item) => isIP(item) !== 0), "must be IP addresses"),
  SVC_CDN_RANGES: list.default([...cdnRanges]).refine(areNetworks, "must be addresses or networks, such as 10.0.0.0/8"),
  SVC_ACME_DIRECTORY: directory.optional(),
  SVC_ACME_FALLBACK_DIRECTORY: directory.optional(),
  SVC_ACME_EMAIL: z.email().optional(),
  SVC_ACME_ROOT_FILE: z.string().optional(),
  SVC_ACME_PROFILE: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, "must be the name of a profile, such as tlsserver")
    .default("tlsserver"),
  SVC_ACME_DNS_SERVER: z
    .string()
    .refine((text) => areServers([text]), "must be an address, with a port or without: 10.0.0.53, [fd00::53]:5353")
    .optional(),
  SVC_ACME_DNS_ZONE: host.optional(),
  SVC_ACME_DNS_KEY_NAME: keyName.optional(),
  SVC_ACME_DNS_KEY_FILE: z.string().optional(),
  SVC_ACME_DNS_HOOK: z.string().refine(isAbsolute, "must be the absolute path of a program").optional(),
  SVC_REGISTRY_URL: origin.default("http://127.0.0.1:5000"),
  SVC_REGISTRY_PUBLIC_URL: origin.optional(),
  SVC_REGISTRY_TOKEN_KEY_FILE: z.string().optional(),
  SVC_REGISTRY_TOKEN_CERT_FILE: z.string().optional(),
  SVC_REGISTRY_EVENTS_SECRET_FILE: z.string().optional(),
  SVC_REGISTRY_ALLOW: list.default([]),
  SVC_WEBHOOK_ALLOW: list.default([]).refine(areNetworks, "must be addresses or networks, such as 10.0.0.0/8"),
  SVC_PLAINTEXT_ALLOW: list.pipe(z.array(z.enum(plaintextServices))).default([]),
  SVC_MASTER_KEY: z.string().optional(),
  SVC_MASTER_KEY_FILE: z.string().optional(),
  SVC_AUTH_SECRET: z.string().optional(),
  SVC_AUTH_SECRET_FILE: z.string().optional(),
  SVC_SIGNUP: z.enum(["open", "invite", "closed"]).default("closed"),
  SVC_SMTP_URL: z.url({ protocol: /^smtps?$/ }).optional(),
  SVC_OUTBOX_DIR: z.string().optional(),
  SVC_MAIL_FROM: z.string().default("svc@svc.localhost"),
  SVC_GITHOST_KIND: z.enum(["github", "gitea"]).default("github"),
  SVC_GITHOST_URL: githostUrl.default("https://github.com"),
  SVC_GITHOST_API_URL: githostUrl.optional(),
  SVC_GITHOST_CLIENT_ID: z.string().optional(),
  SVC_GITHOST_CLIENT_SECRET_FILE: z.string().optional(),
  SVC_BASE_IMAGE_NODE: z.string().default(defaultBaseImage),
  SVC_BUILDER_IMAGE_NODE: z.string().optional(),
  SVC_DB_IMAGE_POSTGRES: z.string().default(defaultDatabaseImages.postgres),
  SVC_DB_IMAGE_MARIADB: z.string().default(defaultDatabaseImages.mariadb),
  SVC_CAPTURE_IMAGE: z.string().default(""),
  SVC_BUILD_CA_FILE: z.string().optional(),
  SVC_DB_COPIES: z.enum(["auto", "off"]).default("auto"),
  SVC_S3_ENDPOINT: origin.transform((text) => new URL(text).origin).optional(),
  SVC_S3_BUCKET: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$/, "must be the name of a bucket")
    .optional(),
  SVC_S3_REGION: z
    .string()
    .regex(/^[a-z0-9-]{1,50}$/, "must be the name of a region, such as eu-central-1")
    .optional(),
  SVC_S3_PREFIX: objectPrefix.optional(),
  SVC_S3_ACCESS_KEY_ID: z
    .string()
    .regex(/^[\w.-]{1,256}$/, "must be the id of an access key")
    .optional(),
  SVC_S3_SECRET_ACCESS_KEY_FILE: z.string().optional(),
  SVC_MARIADB: z.enum(["on", "off"]).default("on"),
  SVC_DB_PUBLIC_HOST: host.optional(),
  SVC_DB_PUBLIC_PORT: port.default(databasePorts.postgres),
  SVC_MARIADB_PUBLIC_HOST: host.optional(),
  SVC_MARIADB_PUBLIC_PORT: port.default(databasePorts.mariadb),
  SVC_CLUSTER_SCHEDULER: z.enum(["on", "off"]).default("on"),
  SVC_ANALYTICS: z.enum(["on", "off"]).default("on"),
  SVC_PREVIEW_IDLE_DAYS: z.coerce.number().int().min(0).max(3650).default(0),
  SVC_DRAIN_SECONDS: z.coerce.number().min(0.25).max(600).default(5),
  SVC_LOG_LEVEL: z.enum(["trace", "debug", "info", "warn", "error", "silent"]).default("info"),
});

export type Settings = z.infer<typeof settings>;
