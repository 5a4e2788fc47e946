// @pure

/** What control said last of whether visitors are to come here; `Drain` of svc/edge/v1/edge.proto. */
export interface Place {
  /** Of the identity that it was said to; empty before the first word. */
  edgeId: string;
  generation: number;
  leave: boolean;
  inRotation: boolean;
}

/** Nobody has said anything: no visitor is asked to come. */
export const noPlace: Place = { edgeId: "", generation: 0, leave: false, inRotation: false };

/** As in `EdgeState`. */
export type Phase = "serving" | "leaving" | "closing" | "drained";

/** How far an edge is with leaving, and what the next step waits for. */
export interface Leaving {
  phase: Phase;
  /** Since the phase began; of `closing` since Caddy has the configuration for it, and null until it does. */
  elapsedMs: number | null;
}

/**
 * The phase that follows at once; the same one when none does.
 *
 * @param waitMs how long health says that it leaves before anything is closed
 * @param closeMs how long Caddy lets go on what is open when it stops serving
 */
export function nextPhase(
  { phase, elapsedMs }: Leaving,
  { leave }: Pick<Place, "leave">,
  { waitMs, closeMs }: { waitMs: number; closeMs: number },
): Phase {
  if (!leave) return "serving";
  if (phase === "serving") return "leaving";
  if (phase === "leaving" && elapsedMs !== null && elapsedMs >= waitMs) return "closing";
  return phase === "closing" && elapsedMs !== null && elapsedMs >= closeMs ? "drained" : phase;
}

/** The phase in which what control says next finds an edge: another drain begins anew, however far the one before it was. */
export function phaseAtWord({ place, phase }: { place: Place; phase: Phase }, next: Place): Phase {
  const isOther = next.generation !== place.generation || next.edgeId !== place.edgeId;
  return place.leave && next.leave && isOther ? "serving" : phase;
}

/** Whether Caddy asks visitors to end their connections. */
export const isClosed = (phase: Phase): boolean => phase === "closing" || phase === "drained";

/** What an edge has of what visitors need. */
export interface Possessions {
  /** Of the present table, which is known as a whole: hosts that are not served as it says; null: it is not known. */
  behind: number | null;
  /** So many of these may be soon. */
  coming: number;
  /** For how long it has been known as a whole. */
  tableForMs: number;
  /** Passwords of sites that control has not told yet. */
  gates: number;
  /** What control tells at the beginning of a session and has not told yet. */
  untold: readonly ("certificates" | "challenges" | "salts")[];
  /** Why certificates are missing that were here, or cannot be kept; null: none is. */
  certificateProblem: string | null;
}

/** For so long an edge does not enter without the files of some sites: they may be lost, and that must not keep it out for ever. */
const patienceMs = 600_000;

/** What is missing of what a new edge needs before visitors may come, in words; empty: nothing is. */
export function lacking(has: Possessions): string {
  if (has.behind === null) return "the route table";
  if (has.behind > 0 && (has.coming > 0 || has.tableForMs < patienceMs)) return `what ${has.behind} hosts serve`;
  if (has.untold.length > 0) return has.untold.join(", ");
  if (has.gates > 0) return `the passwords of ${has.gates} sites`;
  return has.certificateProblem ?? "";
}

/** What decides about an edge's health. */
export interface Health {
  caddyConfigured: boolean;
  hasTable: boolean;
  certificateProblem: string | null;
  /** By how much the clock is before a time that has certainly been. */
  clockBehindMs: number;
  phase: Phase;
  inRotation: boolean;
}

/** Certificates of machines begin a little before they are made. */
const clockBehindMaxMs = 60_000;

/** Why no visitor is to be sent to an edge, in words; empty: send them. */
export function unreadyReason(health: Health): string {
  if (health.phase === "leaving" || health.phase === "closing") return "it is being drained";
  if (health.phase === "drained") return "it is drained";
  if (!health.caddyConfigured) return "Caddy does not have its configuration";
  if (!health.hasTable) return "there is no route table yet";
  if (health.certificateProblem !== null) return health.certificateProblem;
  if (health.clockBehindMs > clockBehindMaxMs) return "its clock is in the past";
  return health.inRotation ? "" : "it is not in rotation: it is new and not whole yet, or somebody took it out";
}
