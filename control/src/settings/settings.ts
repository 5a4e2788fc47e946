import type { DatabaseEngine } from "@svc/proto";

export interface ListenAddress {
  host: string;
  /** 0 lets the system choose. */
  port: number;
}

/** Where people have their repositories, and what svc is known as there. */
export interface GithostConfig {
  kind: "github" | "gitea";
  /** No trailing slash. */
  url: string;
  apiUrl: string;
  clientId: string;
  clientSecret: string;
}

/** A bucket that speaks S3, with the key that may read, write and delete there. */
export interface BucketSettings {
  /** Origin: `https://s3.example.test`. */
  endpoint: string;
  bucket: string;
  region: string;
  /** What the names of all objects begin with: empty, or with a slash at its end. */
  prefix: string;
  accessKeyId: string;
  secretAccessKey: string;
}

/** CAs that speak ACME. */
export interface AcmeConfig {
  /** URLs of their directories, in the order in which they are asked. */
  directories: [string, ...string[]];
  /** Whom a CA tells of trouble; null: nobody. */
  email: string | null;
  /** PEM of the only authorities that the CAs' own servers may come from; null: those of the system. */
  rootPem: string | null;
  /** What kind of certificate is asked for, where a CA offers it. */
  profile: string;
  /** `*.` and the content domain, and who writes the records that prove it; null: it gets no certificate. */
  wildcard: { name: string; dns: DnsWriterConfig } | null;
}

/** How records get into the zone of the content domain. */
export type DnsWriterConfig =
  /** By messages to the server that has the zone (RFC 2136). */
  | { by: "update"; server: ListenAddress; zone: string; key: { name: string; secret: Buffer } }
  /** By a program: absolute path. */
  | { by: "hook"; program: string };

export interface Config {
  apiListen: ListenAddress;
  /** Origin under which browsers and clients reach the API; no trailing slash. */
  apiUrl: string;
  /** Proxies that are believed when they tell a client's address: addresses, networks, or `loopback`. */
  trustProxy: string[];
  databaseUrl: string;
  etcd: { endpoints: string[]; tls: { ca: Buffer; cert?: Buffer; key?: Buffer } | null };
  linkListen: ListenAddress;
  enrollListen: ListenAddress;
  /** Where operators' tools ask for metrics, on a private address; null: nowhere. */
  metricsListen: ListenAddress | null;
  /** Where tenants' sites answer: scheme, domain, and ":port" or "" for the scheme's own. */
  content: { scheme: "http" | "https"; domain: string; port: string };
  /** Names that tenants attach to their sites, and how they lead here. */
  domains: {
    /** `ip` or `ip:port`; empty: those of the system. Of several, two must agree. */
    dnsServers: string[];
    /** Where their CNAMEs lead. */
    edgeHost: string;
    /** Where their A and AAAA records lead; empty: where the edges say that they are. */
    edgeAddresses: string[];
    /** Addresses and networks of proxies that may stand before us. */
    cdnRanges: string[];
  };
  /** Where certificates of sites come from; null: nowhere. */
  acme: AcmeConfig | null;
  /** The cluster's own, and what control signs its tokens with (PEM). */
  registry: {
    url: string;
    /** As tenants reach it to push images of their own; null: they do not. */
    publicHost: string | null;
    tokenKey: { key: string; certificate: string };
    /** What the registry shows when it tells what was pushed; null: it does not. */
    eventsSecret: string | null;
  };
  /** host or host:port of private registries that image references may name. */
  registryAllow: string[];
  /** Addresses and networks that are not public and that webhooks of alerts may lead to. */
  webhookAllow: string[];
  /** 32 bytes each; the first seals, all open. */
  masterKeys: [Buffer, ...Buffer[]];
  authSecret: string;
  signup: "open" | "invite" | "closed";
  mail: { from: string; smtpUrl?: string; outboxDir?: string };
  /** Absent: nobody signs in with a Git host. */
  githost?: GithostConfig;
  baseImageNode: string;
  /** What apps without a Dockerfile are built in. */
  builderImageNode: string;
  /** PEM that builds trust besides the public authorities; empty for none. */
  buildCaBundle: string;
  /** What pictures of sites are taken in; empty: none are taken. */
  captureImage: string;
  databases: {
    /** What servers of new branches run in. */
    images: Record<DatabaseEngine, string>;
    /** auto: a copy of each branch is kept, on another node if there is one. */
    copies: "auto" | "off";
    /** Whether MariaDB is offered for new branches. */
    mariadb: boolean;
    /** Where people reach databases of an engine from elsewhere; null: nowhere. */
    public: Record<DatabaseEngine, { host: string; port: number } | null>;
  };
  /** Where backups and copies of databases are kept besides, outside of this site; null: nowhere. */
  offsite: BucketSettings | null;
  schedulerEnabled: boolean;
  drainMs: number;
  /** After so many days without a deployment preview and dev channels are given up; 0: never. */
  previewIdleDays: number;
  /** Whether edges are to count what visitors look at. */
  analytics: boolean;
  logLevel: string;
}
