import { type Manifest, manifestType, projectDetailReply } from "@svc/proto";
import type { Context } from "./context.ts";
import { CliError } from "./errors.ts";
import { findTypeTrouble, goneTrouble, offerCure, troubleError } from "./link-trouble.ts";
import type { ManifestPlace } from "./manifest-file.ts";
import { readState } from "./state.ts";

/** What was asked for is done already; the next deploy asks again. */
const askMs = 10_000;

/**
 * For a manifest that was just written anew: where the linked project cannot take it, offers to end that, or says how.
 * What cannot be asked now, without a login say, is left to the next deploy.
 */
export async function offerRemake(context: Context, place: ManifestPlace, manifest: Manifest): Promise<void> {
  try {
    const link = await readState(place.directory);
    if (link === null) return;
    const api = await context.api();
    const trouble = await api.get(`/projects/${link.id}`, projectDetailReply, { timeoutMs: askMs }).then(
      (reply) => findTypeTrouble(api, reply, manifestType(manifest)),
      (thrown: unknown) => goneTrouble(link, thrown),
    );
    if (trouble === null || (await offerCure(context, api, trouble))) return;
    const { message, hint } = troubleError(trouble);
    context.warn(`${message}. ${hint}`);
  } catch (thrown) {
    if (!(thrown instanceof CliError)) throw thrown;
    context.terminal.verbose(thrown.message);
  }
}
