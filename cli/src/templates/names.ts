/** Templates that are a whole app: folders of `cli/templates`. */
export const templatesWithFiles = ["realtime-todo"] as const;
export type TemplateWithFiles = (typeof templatesWithFiles)[number];

/** All templates. The others are a manifest alone. */
export const templateNames = ["ociimage", ...templatesWithFiles] as const;
