import { isIP } from "node:net";

/** What control may be told to do in the clear, over a network that operators vouch for. */
export const plaintextServices = ["api", "etcd", "postgres", "registry", "s3"] as const;

export type PlaintextService = (typeof plaintextServices)[number];

export interface PlaintextUse {
  service: PlaintextService;
  setting: string;
  /** What to do about it. */
  instead: string;
}

/** Which services are reached over a network in the clear. */
export function plaintextUses(reached: {
  apiUrl: string;
  etcdEndpoints: readonly string[];
  databaseUrl: string;
  registryUrl: string;
  /** Undefined: nothing is put outside of this site. */
  s3Endpoint: string | undefined;
}): PlaintextUse[] {
  const isPlain = (url: string) => url.startsWith("http:") && !isLocal(new URL(url).hostname);
  const uses: [isSo: boolean, use: PlaintextUse][] = [
    [
      isPlain(reached.apiUrl),
      {
        ...{ service: "api", setting: "SVC_API_URL" },
        instead: "put a proxy with TLS before control and name its https:// address",
      },
    ],
    [
      reached.etcdEndpoints.some(isPlain),
      {
        ...{ service: "etcd", setting: "SVC_ETCD_ENDPOINTS" },
        instead: "give etcd certificates and name its https:// endpoints",
      },
    ],
    [
      !isSafeDatabase(reached.databaseUrl),
      {
        ...{ service: "postgres", setting: "SVC_DATABASE_URL" },
        instead: "add ?sslmode=verify-full, and &sslrootcert=<file> for an authority of your own",
      },
    ],
    [
      isPlain(reached.registryUrl),
      {
        ...{ service: "registry", setting: "SVC_REGISTRY_URL" },
        instead: "give the registry a certificate and name its https:// address",
      },
    ],
    [
      reached.s3Endpoint !== undefined && isPlain(reached.s3Endpoint),
      {
        ...{ service: "s3", setting: "SVC_S3_ENDPOINT" },
        instead: "name the https:// address of the bucket's server",
      },
    ],
  ];
  return uses.flatMap(([isSo, use]) => (isSo ? [use] : []));
}

/** Over a socket of this machine, or with a server that is known by its certificate. */
function isSafeDatabase(text: string): boolean {
  const url = new URL(text);
  const parameters = url.searchParams;
  const host = parameters.get("host") ?? decodeURIComponent(url.hostname);
  if (host === "" || host.startsWith("/") || isLocal(host)) return true;
  // What looks like a demand of TLS is a wish, or trusts whoever answers.
  if (parameters.has("uselibpqcompat")) return parameters.get("sslmode") === "verify-full";
  const mode = parameters.get("sslmode");
  if (mode !== null) return ["require", "verify-ca", "verify-full"].includes(mode);
  return ["true", "1"].includes(parameters.get("ssl") ?? "");
}

/** Whether the host of a URL is this machine: what goes there crosses no network. */
export function isLocal(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, "");
  if (host === "localhost" || host.endsWith(".localhost") || host === "::1") return true;
  return isIP(host) === 4 && host.startsWith("127.");
}
