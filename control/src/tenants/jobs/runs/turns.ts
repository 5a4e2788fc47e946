import { createHash } from "node:crypto";

const turnMs = 60_000;

/**
 * In which order they are placed: another one in every minute, so that a job which is behind others, and finds no room, is before
 * them soon. Neither its name nor its age says anything.
 */
export function orderInTurn(now: Date): (a: { jobId: string }, b: { jobId: string }) => number {
  const turn = Math.floor(now.getTime() / turnMs);
  const placeOf = ({ jobId }: { jobId: string }) => createHash("sha256").update(`${turn}/${jobId}`).digest("hex");
  return (a, b) => (placeOf(a) < placeOf(b) ? -1 : 1);
}
