// @pure
import { retentionHours } from "../copies/steps.ts";

/** How long a volume is kept that another took the place of, in hours: after a move nothing is in it that its successor has not. */
export const volumeHours = { move: 24, restore: retentionHours } as const;

/**
 * How long copies are kept that end with a change, in hours. Whatever it was, they have moments that nothing else has; and one that was
 * made for a move that came to nothing may be all there is when the machine was lost meanwhile.
 */
export const copyHours = retentionHours;
