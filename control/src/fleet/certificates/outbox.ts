// @pure

/** What one router was told of certificates, and what of it is on its way. */
export interface CertificateOutbox {
  /** Fingerprints by name, as the router has them once it has answered. */
  told: ReadonlyMap<string, string>;
  /** Whether it was told of all once. */
  isWhole: boolean;
  /** Whether the first message of all has been sent. */
  hasBegun: boolean;
}

export const emptyOutbox: CertificateOutbox = { told: new Map(), isWhole: false, hasBegun: false };

/** Fingerprint of what a router did not take: there may be an older certificate of the name, which goes when the name does. */
const unknown = "";

/** Nobody knows what the router has of these. */
export const untold = (outbox: CertificateOutbox, names: Iterable<string>): CertificateOutbox => ({
  ...outbox,
  told: new Map([...outbox.told, ...[...names].map((name) => [name, unknown] as const)]),
});

/** The next message, without the certificates themselves. */
export interface CertificateChange {
  first: boolean;
  more: boolean;
  upserts: string[];
  removed: string[];
}

/** So many with their chains and keys are half a megabyte. */
const namesPerMessage = 100;

/**
 * What to tell next, and what the router has then; null: there is no news.
 *
 * @param mayTell whether a certificate may be told now; what may not waits, and is not taken away
 */
export function nextChange(
  { told, isWhole, hasBegun }: CertificateOutbox,
  current: ReadonlyMap<string, string>,
  mayTell: (name: string, fingerprint: string) => boolean = () => true,
): { change: CertificateChange; outbox: CertificateOutbox } | null {
  const changed = [...current].filter(
    ([name, fingerprint]) => told.get(name) !== fingerprint && mayTell(name, fingerprint),
  );
  const removed = [...told.keys()].filter((name) => !current.has(name));
  if (isWhole && changed.length === 0 && removed.length === 0) return null;
  const upserts = changed.slice(0, namesPerMessage);
  const after = new Map([...told, ...upserts]);
  for (const name of removed) after.delete(name);
  const isLast = changed.length <= namesPerMessage;
  return {
    change: {
      first: !hasBegun,
      more: !isWhole && !isLast,
      upserts: upserts.map(([name]) => name),
      removed,
    },
    outbox: { told: after, isWhole: isWhole || isLast, hasBegun: true },
  };
}
