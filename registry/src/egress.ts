import type { LookupFunction } from "node:net";
import { buildConnector } from "undici";

/** An address as a dialler wants it. */
export interface DialledAddress {
  address: string;
  family: 4 | 6;
}

/**
 * Judges where a registry that somebody else named may lead: its own host, redirects and token services alike.
 * Given an origin, it resolves to the addresses that may be dialled for it, or to null when the system may resolve
 * the name as it likes. Throws EgressBlocked for what must not be contacted.
 */
export type Egress = (origin: URL) => Promise<readonly DialledAddress[] | null>;

/**
 * Dials only what `egress` has judged, and exactly the addresses that it returned: a name that means something else a
 * moment later gains nothing. It is asked for each connection, for addresses written as such too.
 */
export function guardedConnector(egress: Egress, options: buildConnector.BuildOptions): buildConnector.connector {
  // One protocol less that a stranger's server may play with.
  const connectorFor = (lookup: { lookup?: LookupFunction }) =>
    buildConnector({ ...options, ...lookup, allowH2: false });
  return (target, callback) => {
    egress(new URL(`${target.protocol}//${target.host}`)).then(
      (addresses) => connectorFor(addresses === null ? {} : { lookup: lookupOf(addresses) })(target, callback),
      (error: Error) => callback(error, null),
    );
  };
}

/** A lookup that has these addresses for an answer, whatever it is asked. */
export const lookupOf =
  (addresses: readonly DialledAddress[]): LookupFunction =>
  (hostname, { all }, callback) => {
    const [first] = addresses;
    if (first === undefined) callback(new Error(`${hostname} has no address`), "", 4);
    else if (all === true) callback(null, [...addresses]);
    else callback(null, first.address, first.family);
  };
