/** Milliseconds on the clock that all processes of this machine share; it does not go back. */
export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;
