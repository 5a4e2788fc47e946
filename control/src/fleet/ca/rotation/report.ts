import { plural } from "@svc/proto";
import type { RotationState } from "./rotate.ts";

/** How the authority stands, for the operator's terminal. */
export function rotationReport({ caSha256, rotation, finishedAt }: RotationState): string[] {
  const present = `authority ${caSha256}`;
  if (rotation === null) {
    return [
      present,
      finishedAt === null ? "It was never replaced." : `In force alone since ${finishedAt.toISOString()}.`,
    ];
  }
  const { moved, heldUpBy, previousSha256, startedAt } = rotation;
  return [
    `${present}, in the place of ${previousSha256} since ${startedAt.toISOString()}`,
    `${plural(moved, "machine")} moved; the replacement ends by itself once ${heldUpBy.length === 0 ? "control looks again." : "these have too:"}`,
    ...heldUpBy.map(
      ({ name, role, id, lastSeenAt }) =>
        `  ${name} (${role} ${id}), last seen ${lastSeenAt === null ? "never" : lastSeenAt.toISOString()}`,
    ),
    ...(heldUpBy.length === 0
      ? []
      : [
          "One that will not come back is waited for no more once it is fenced or removed, its certificate is over, or it was not seen for 30 days.",
        ]),
  ];
}
