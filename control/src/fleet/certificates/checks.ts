import type { Answer } from "../../stores/dns/answer.ts";
import type { Resolver } from "../../stores/dns/resolver.ts";
import { caaAllows, caaPath } from "./rules.ts";
import type { Failure } from "./steps.ts";
import type { WantedName } from "./wanted.ts";

const failure = (code: string, text: string): Failure => ({
  ...{ code, text, isCas: false, retryAfterMs: null, isForeseen: true },
});

/**
 * What the CA would refuse as well, at the price of a failed order: null when nothing is in the way.
 *
 * @param identities what the CA calls itself in CAA records
 * @param edges addresses at which visitors reach the edges, as far as they are known
 */
export async function findObstacle(
  resolver: Resolver,
  { name, twinOf }: WantedName,
  { identities, edgeHost }: { identities: readonly string[]; edgeHost: string },
): Promise<Failure | null> {
  const obstacle = twinOf === null ? null : await twinObstacle(resolver, name, twinOf, edgeHost);
  return obstacle ?? (await caaObstacle(resolver, name, identities));
}

/** A twin leads here when it leads to where the apex leads, of which that is known, or to the edges' own name. */
async function twinObstacle(resolver: Resolver, name: string, apex: string, edgeHost: string): Promise<Failure | null> {
  const [twin, ...ours] = await Promise.all([name, apex, edgeHost].map((each) => resolver.addresses(each)));
  if (twin === undefined || twin.kind === "unknown") return failure("dns", `What ${name} points at is not known now.`);
  if (twin.kind === "absent") return failure("not-pointing", `${name} points at nothing.`);
  const known = new Set(ours.flatMap((answer) => valuesOf(answer)));
  const foreign = twin.values.find((address) => !known.has(address));
  return foreign === undefined ? null : failure("not-pointing", `${name} points at ${foreign}, which is no edge.`);
}

const valuesOf = (answer: Answer<string>): string[] => (answer.kind === "found" ? answer.values : []);

async function caaObstacle(resolver: Resolver, name: string, identities: readonly string[]): Promise<Failure | null> {
  if (identities.length === 0) return null;
  for (const each of caaPath(name)) {
    const answer = await resolver.caa(each);
    // A CA may not take silence for leave either (RFC 8659, 3).
    if (answer.kind === "unknown") return failure("dns", `The CAA records of ${each} are not known now.`);
    if (answer.kind === "absent") continue;
    if (caaAllows(answer.values, identities, name.startsWith("*."))) return null;
    return failure("caa", `The CAA records of ${each} do not allow ${identities[0]} to give a certificate.`);
  }
  return null;
}
