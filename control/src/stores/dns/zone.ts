import { hostAndPort, isPublicAddress } from "@svc/proto";
import { type Answer, agreedBy, unknown } from "./answer.ts";
import { agreed, type Questions, type Resolver } from "./resolver.ts";

export interface ZoneOptions {
  resolver: Resolver;
  /** Where a server of a zone is asked, `ip:port`; null: not at all. Public addresses, port 53, unless given. */
  serverAt?: (address: string) => string | null;
}

/** Whoever has a zone says where its servers are, so none is asked within our own networks. */
const publicServer = (address: string): string | null => (isPublicAddress(address) ? hostAndPort(address, 53) : null);

const climbMax = 8;
const serversMax = 2;

/**
 * What the servers of the zone say themselves, whatever recursors remember: two of them have to say the same, where there are
 * two. Who they are is what recursors agree on. Unknown as well when they are not to be found.
 *
 * @param top the highest name that may be the zone's
 */
export async function askZone<T>(
  { resolver, serverAt = publicServer }: ZoneOptions,
  name: string,
  top: string,
  ask: (server: Questions) => Promise<Answer<T>>,
): Promise<Answer<T>> {
  const names = await nameServers(resolver, name, top);
  const found = await Promise.all(
    names.slice(0, serversMax).map((host) => agreed(resolver, (server) => server.addresses(host))),
  );
  const servers = found.flatMap((answer) => {
    const usable = answer.kind === "found" ? answer.values.flatMap((address) => serverAt(address) ?? []) : [];
    return usable.slice(0, 1);
  });
  if (servers.length === 0) return unknown(`the servers of ${top} are not to be found`);
  return agreedBy(await Promise.all(servers.map((server) => ask(resolver.at(server)))));
}

/** Of the zone that the name is in; empty when that is not known. */
async function nameServers(resolver: Resolver, name: string, top: string): Promise<string[]> {
  for (const zone of upTo(name, top)) {
    const answer = await agreed(resolver, (server) => server.ns(zone));
    if (answer.kind === "found") return answer.values.toSorted();
    if (answer.kind === "unknown") return [];
  }
  return [];
}

/** The name and those above it, up to `top`. */
function upTo(name: string, top: string): string[] {
  const labels = name.split(".");
  const names = labels.map((_, at) => labels.slice(at).join("."));
  return names.filter((each) => each === top || each.endsWith(`.${top}`)).slice(0, climbMax);
}
