// @pure
/** `<deployment id>.<n>`: the n-th attempt at a deployment's release command. */
export const releaseAttemptId = (deploymentId: string, attempt: number) => `${deploymentId}.${attempt}`;
