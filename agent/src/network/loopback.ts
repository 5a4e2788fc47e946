// @pure

/** Whether an address in its usual spelling, with or without a port, is this machine's own for itself. */
export const isLoopback = (address: string): boolean => /^(?:127\.|::1$)/.test(address);
