import { plaintextUses } from "./plaintext.ts";
import type { Settings } from "./schema.ts";

/**
 * The first setting that an operator would regret, with what to do instead; null when there is none. What goes between
 * machines in the clear has to be asked for by name: a network that encrypts by itself is for its operators to know.
 */
export function unsafeSetting(s: Settings): string | null {
  return plaintextProblem(s) ?? etcdProblem(s) ?? domainProblem(s) ?? proxyProblem(s);
}

function plaintextProblem(s: Settings): string | null {
  const reached = {
    ...{ apiUrl: s.SVC_API_URL, etcdEndpoints: s.SVC_ETCD_ENDPOINTS },
    ...{ databaseUrl: s.SVC_DATABASE_URL, registryUrl: s.SVC_REGISTRY_URL },
    s3Endpoint: s.SVC_S3_ENDPOINT,
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

const distinctMin = 8;

/** Whether bytes that should be random are all alike, or one after the other: nobody's chance makes such. */
export function isGuessable(bytes: Uint8Array): boolean {
  const steps = new Set(Array.from(bytes.subarray(1), (byte, index) => (byte - (bytes[index] ?? 0)) & 255));
  return new Set(bytes).size < distinctMin || steps.size < 2;
}
