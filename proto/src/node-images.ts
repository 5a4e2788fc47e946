/** What the images of generated Dockerfiles start from, unless an operator names another. */
export const defaultBaseImage = "node:24-slim";

/** The same Node on the same Debian, with Python, make and a C++ compiler. */
const defaultBuilderImage = "node:24";

/**
 * What packages are installed and apps are built in. Files move from there into the base image, so an operator who
 * chose a base image and said nothing of this one builds in the base image, too: no other is known to fit it.
 */
export const builderImageOf = (baseImage: string, chosen: string | undefined): string =>
  chosen ?? (baseImage === defaultBaseImage ? defaultBuilderImage : baseImage);
