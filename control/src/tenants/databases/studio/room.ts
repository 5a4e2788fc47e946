// @pure
const mebibyte = 1024 * 1024;

/** What may still be written to a branch before it is larger than its plan allows. */
export const freeBytes = ({ sizeBytes, sizeLimitMb }: { sizeBytes: number; sizeLimitMb: number }): number =>
  Math.max(0, sizeLimitMb * mebibyte - sizeBytes);
