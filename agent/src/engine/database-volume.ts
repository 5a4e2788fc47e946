// @pure

/** Whether a volume is one of a database or a copy: the engine's own, made for an image's, have 64 hexadecimal digits for a name. */
export const isDatabaseVolume = (name: string | undefined): boolean =>
  /^svc-db(?:-[0-9a-f]{16}(?:-[0-9]{1,10})?|copy-[0-9a-f]{16})$/.test(name ?? "");
