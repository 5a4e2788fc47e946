import { isIP } from "node:net";
import type { Settings } from "./config.ts";

/** What control may be told to do in the clear, over a network that operators vouch for. */
export const plaintextServices = ["api", "etcd", "postgres", "registry"] as const;
export type PlaintextService = (typeof plaintextServices)[number];

/**
 * The first setting that an operator would regret, with what to do instead; null when there is none. What goes between
 * machines in the clear has to be asked for by name: a network that encrypts by itself is for its operators to know.
 */
export function unsafeSetting(s: Settings): string | null {
  return plaintextProblem(s) ?? etcdProblem(s) ?? domainProblem(s) ?? proxyProblem(s);
}

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
  ];
  return uses.flatMap(([isSo, use]) => (isSo ? [use] : []));
}

function plaintextProblem(s: Settings): string | null {
  const reached = {
    ...{ apiUrl: s.SVC_API_URL, etcdEndpoints: s.SVC_ETCD_ENDPOINTS },
    ...{ databaseUrl: s.SVC_DATABASE_URL, registryUrl: s.SVC_REGISTRY_URL },
  };
  const use = plaintextUses(reached).find(({ service }) => !s.SVC_PLAINTEXT_ALLOW.includes(service));
  if (use === undefined) return null;
  const { service, setting, instead } = use;
  return `${setting}: secrets would cross the network in the clear; ${instead}, or add ${service} to SVC_PLAINTEXT_ALLOW where the network itself encrypts`;
}

function etcdProblem(s: Settings): string | null {
  const isTls = s.SVC_ETCD_ENDPOINTS.some((url) => url.startsWith("https:"));
  const files = {
    SVC_ETCD_CA_FILE: s.SVC_ETCD_CA_FILE,
    SVC_ETCD_CERT_FILE: s.SVC_ETCD_CERT_FILE,
    SVC_ETCD_KEY_FILE: s.SVC_ETCD_KEY_FILE,
  };
  const [missing] = Object.entries(files).find(([, file]) => file === undefined) ?? [];
  const given = Object.values(files).some((file) => file !== undefined);
  if (given && !isTls)
    return "SVC_ETCD_ENDPOINTS: certificates are set and no endpoint is https://; name https:// endpoints";
  return isTls && missing !== undefined
    ? `${missing}: set it: etcd must know its clients by a certificate (--client-cert-auth), or whoever reaches it owns the cluster`
    : null;
}

/** A site may set and read cookies of every domain that it is in. */
function domainProblem(s: Settings): string | null {
  const api = new URL(s.SVC_API_URL).hostname;
  const content = new URL(s.SVC_CONTENT_URL).hostname;
  return api === content || api.endsWith(`.${content}`)
    ? `SVC_CONTENT_URL: sites of ${content} would share cookies with the API at ${api}; give them a domain of their own, which the API's host is not in`
    : null;
}

/** A network so wide that strangers are in it. */
const proxyBitsMin = 7;

function proxyProblem(s: Settings): string | null {
  const wide = s.SVC_TRUST_PROXY.find((item) => item.includes("/") && Number(item.split("/")[1]) < proxyBitsMin);
  return wide === undefined
    ? null
    : `SVC_TRUST_PROXY: ${wide} believes strangers what they say of their address; name the proxies' own network`;
}

/** Whether the host of a URL is this machine: what goes there crosses no network. */
export function isLocal(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, "");
  if (host === "localhost" || host.endsWith(".localhost") || host === "::1") return true;
  return isIP(host) === 4 && host.startsWith("127.");
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

const distinctMin = 8;

/** Whether bytes that should be random are all alike, or one after the other: nobody's chance makes such. */
export function isGuessable(bytes: Uint8Array): boolean {
  const steps = new Set(Array.from(bytes.subarray(1), (byte, index) => (byte - (bytes[index] ?? 0)) & 255));
  return new Set(bytes).size < distinctMin || steps.size < 2;
}
