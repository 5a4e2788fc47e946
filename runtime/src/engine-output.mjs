// Plain JavaScript without imports: set-up reads it on whatever Node the machine has, before anything is installed.

/** Of one step. What comes at once is one message of the engine's, and in memory as a whole. */
const stepBytes = 4 * 1024 * 1024;

/** Builders before this version of the engine tell of more than 1 MiB at once by saying nothing, again and again, for ever. */
const splitsWell = 23;
const oldBytesPerSecond = 256 * 1024;

/**
 * Environment of a container engine whose builder passes on what a step writes: without it at most some 200 KB per second
 * and 2 MB, and then not even the end, which says why a step failed. The engine keeps all of it in memory as long as the
 * build lasts, so it has to have an end. "Any speed", -1, is "nothing" to older builders.
 *
 * @param version of the engine, as it is or as `dockerd --version` says it
 */
export function engineOutput(version) {
  const major = Number(/\d+/.exec(version)?.[0] ?? 0);
  const bytesPerSecond = major < splitsWell ? oldBytesPerSecond : stepBytes;
  return { BUILDKIT_STEP_LOG_MAX_SIZE: String(stepBytes), BUILDKIT_STEP_LOG_MAX_SPEED: String(bytesPerSecond) };
}
