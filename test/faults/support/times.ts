/** From the moment a machine falls silent until its node is unreachable, at most. */
export const detectMs = 16_500;
/** What a busy machine may add to that. */
export const detectSlackMs = 1_000;
/** Until another container answers in place of one whose node is lost: more than detection, a start and a route take. */
export const replaceMs = 35_000;
/** Until a cluster is as before once what was broken is whole. */
export const healMs = 60_000;
/** Until a node that is emptied has nothing left. */
export const drainMs = 60_000;
