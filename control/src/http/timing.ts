/** How long a client may take, and how much of it we take at once. In ms. */
export interface Timing {
  /** Until a request's head has arrived. */
  headersMs: number;
  /** Until its body has, where that is not an upload. */
  bodyMs: number;
  /** Until an upload has. Its pace is judged besides; see deployments/upload/pace.ts. */
  requestMs: number;
  /** A connection on which nothing moves, also because the client does not read. */
  idleMs: number;
  /** Between two requests on a connection. */
  keepAliveMs: number;
  /** How long the rest of a request is still read after it was answered; see body-time.ts. */
  lingerMs: number;
  /** How often connections are looked at: so much later than promised they may end. */
  checkMs: number;
  /** Connections at once; one more is closed unread. */
  connectionsMax: number;
}

export const usualTiming: Timing = {
  headersMs: 15_000,
  bodyMs: 30_000,
  requestMs: 15 * 60_000,
  idleMs: 120_000,
  keepAliveMs: 65_000,
  lingerMs: 5_000,
  checkMs: 2_000,
  connectionsMax: 10_000,
};
