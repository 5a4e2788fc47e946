import { join } from "node:path";
import { defaultCacheDir } from "./paths.ts";

/** What programs may inherit: how to find things and how to reach the network, but no setting of ours. */
const inherited = [
  "PATH",
  "HOME",
  "LANG",
  "TZ",
  "TMPDIR",
  "NODE_EXTRA_CA_CERTS",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "NO_PROXY",
  "http_proxy",
  "https_proxy",
  "no_proxy",
];

/**
 * The environment of a program: the inherited part, with `settings` over it. Node keeps compiled (and
 * type-stripped) code in the cache directory, which makes every later start faster and smaller.
 */
export function environmentOf(env: NodeJS.ProcessEnv, settings: Record<string, string>): NodeJS.ProcessEnv {
  const kept = inherited.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]]));
  return { ...Object.fromEntries(kept), NODE_COMPILE_CACHE: join(defaultCacheDir(env), "compiled"), ...settings };
}
