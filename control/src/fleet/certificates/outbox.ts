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

/** The next message, without the certificates themselves. */
export interface CertificateChange {
  first: boolean;
  more: boolean;
  upserts: string[];
  removed: string[];
}

/** So many with their chains and keys are half a megabyte. */
const namesPerMessage = 100;

/** What to tell next, and what the router has then; null: there is no news. */
export function nextChange(
  { told, isWhole, hasBegun }: CertificateOutbox,
  current: ReadonlyMap<string, string>,
): { change: CertificateChange; outbox: CertificateOutbox } | null {
  const changed = [...current].filter(([name, fingerprint]) => told.get(name) !== fingerprint);
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
