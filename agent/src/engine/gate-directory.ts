// @pure

/** Where a container has the volume that is its gate. */
export const gateDirectory = "/.svc-gate";
