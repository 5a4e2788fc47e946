import { isOciManifest, manifestName, manifestPort, manifestType, releaseOf } from "@svc/proto";
import { command } from "../../command.ts";
import { explicitSlug, getManifest } from "../../manifest-file.ts";

/** Never echoes a command: they may hold what somebody should not have written there. */
export const manifestValidate = command({
  name: "manifest validate",
  summary: "Check the manifest without deploying",
  examples: ["svc manifest validate", "svc manifest validate --manifest apps/web/svc.yml"],
  async run(context) {
    const place = await context.manifestPlace();
    const manifest = await getManifest(place);
    const slug = explicitSlug(manifest);
    const facts = {
      manifest: place.path,
      app: manifestName(manifest),
      type: manifestType(manifest),
      ...(slug === null ? {} : { slug }),
      release: releaseOf(manifest),
    };
    if (isOciManifest(manifest))
      return { ...facts, port: manifestPort(manifest), image: { reference: manifest.image.reference } };
    const { rootDirectory, manifestPath, watchPaths } = manifest.source;
    return { ...facts, source: { rootDirectory, manifestPath, watchPaths } };
  },
  render: (payload, { paint }) =>
    [
      `${paint("green", "✓")} ${payload.manifest} is valid`,
      `  app      ${payload.app} (${payload.type})`,
      ...("slug" in payload ? [`  slug     ${payload.slug}`] : []),
      ...("image" in payload
        ? [`  image    ${payload.image.reference}`, `  port     ${payload.port}`]
        : [
            `  root     ${payload.source.rootDirectory}`,
            `  watches  ${payload.source.watchPaths.join(", ")}`,
            `  release  ${payload.release.configured ? `a command, at most ${payload.release.timeoutSeconds} s` : "none"}`,
          ]),
    ].join("\n"),
});
