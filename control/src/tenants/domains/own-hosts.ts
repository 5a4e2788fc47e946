// @pure
import type { Config } from "../../settings/settings.ts";

const withoutPort = (host: string): string => host.replace(/:\d+$/, "");

/** Names that are the platform's, as are those below them. */
export function ownHosts({ content, apiUrl, registry, domains, databases }: Config): string[] {
  const named = [registry.publicHost, databases.public.postgres?.host, databases.public.mariadb?.host];
  return [
    content.domain,
    new URL(apiUrl).host,
    domains.edgeHost,
    ...named.filter((host) => typeof host === "string"),
  ].map((host) => withoutPort(host).toLowerCase());
}
