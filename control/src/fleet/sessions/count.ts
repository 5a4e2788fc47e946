/** What a column of type `integer` holds. */
export const integerMax = 2 ** 31 - 1;

/**
 * A whole number as a daemon says it. What no true one comes to is taken as `max`: one that JSON or a column does not hold
 * would hold up everybody who reads it, whosever it is.
 */
export const countOf = (said: bigint | number, max: number = Number.MAX_SAFE_INTEGER): number =>
  said > max ? max : Number(said);
