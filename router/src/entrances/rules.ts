// @pure

/** A certificate that an edge shows at entrances, with what it knows nodes by. */
export interface ShownCertificate {
  /** Whom it names. */
  subject: string;
  /** Milliseconds since 1970. */
  fromMs: number;
  untilMs: number;
  caPem: string;
}

/** Of its life, before which another one is not shown: each that is ends WebSockets, and control gives one after half of it. */
const shownShare = 0.9;

/**
 * Whether what control gave last is to be shown in the place of what Caddy has. As late as can be, unless it is another edge's
 * or goes with other authorities: nodes have certificates of these.
 */
export function takesOver(shown: ShownCertificate | null, given: ShownCertificate, nowMs: number): boolean {
  if (shown === null || shown.subject !== given.subject || shown.caPem !== given.caPem) return true;
  return nowMs >= shown.fromMs + (shown.untilMs - shown.fromMs) * shownShare;
}
