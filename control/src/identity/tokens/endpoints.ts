import {
  createTokenInput,
  createTokenReply,
  deleteTokenReply,
  idParams,
  isTokenExpiry,
  limits,
  tokenListReply,
} from "@svc/proto";
import { recordAudit } from "../../http/audit.ts";
import type { Caller } from "../../http/caller.ts";
import { unforeseenAs } from "../../http/error-handler.ts";
import { ApiError } from "../../http/errors.ts";
import { refuseLimited } from "../../http/limited.ts";
import type { Db } from "../../stores/db/pool.ts";
import { lockCaller } from "../accounts/store.ts";
import { endpoint } from "../endpoint.ts";
import {
  countOwnProjects,
  countTokens,
  deleteExpiredTokens,
  deleteToken,
  insertToken,
  listTokens,
  type Token,
} from "./store.ts";

const tokenView = ({ id, name, start, scopes, projectIds, expiresAt, createdAt }: Token) => ({
  id,
  name,
  start,
  scopes,
  projectIds,
  expiresAt: expiresAt?.toISOString() ?? null,
  createdAt: createdAt.toISOString(),
});

const create = endpoint({
  method: "POST",
  path: "/tokens",
  access: "session",
  summary: "Create an API key. The key itself is in this reply and nowhere else.",
  body: createTokenInput,
  status: 201,
  reply: createTokenReply,
  errors: ["TOKEN_CREATE_FAILED", { code: "TOKEN_CREATE_FAILED", status: 500 }, "IDEMPOTENCY_CONFLICT"],
  async handle({ clock, random, createOnce }, { caller, body, address, idempotencyKey }) {
    const { name, expiresIn, scopes = null, projectIds = null } = body;
    if (expiresIn !== undefined && !isTokenExpiry(expiresIn)) throw new ApiError("TOKEN_CREATE_FAILED");
    const createdAt = clock.now();
    const expiresAt = expiresIn === undefined ? null : new Date(createdAt.getTime() + expiresIn * 1000);
    const attempt = {
      caller,
      idempotencyKey,
      request: ["POST /tokens", body],
      status: 201,
      shownOnce: ({ token }: { token: { id: string } }) => token.id,
    };
    const create = async (tx: Db) => {
      // A key would let them in again who were signed out since the request was let in.
      await lockCaller(tx, caller);
      await makeRoom(tx, caller.userId);
      if (projectIds !== null && (await countOwnProjects(tx, caller.userId, projectIds)) !== projectIds.length) {
        throw new ApiError("VALIDATION", { message: "projectIds: names a project that is not yours" });
      }
      const token = await insertToken(tx, {
        id: random.uuid(),
        userId: caller.userId,
        name,
        scopes,
        projectIds,
        expiresAt,
        createdAt,
      });
      await recordAudit(tx, {
        caller,
        address,
        action: "token.create",
        target: token.id,
        detail: { name, scopes, projectIds },
      });
      return { token: { ...tokenView(token), key: token.key } };
    };
    return unforeseenAs(notCreated, () => createOnce(attempt, create));
  },
});

const notCreated = {
  code: "TOKEN_CREATE_FAILED",
  message: "The key could not be created. The failure was recorded; try again.",
} as const;

/** Keys that have run out are listed for a while, so that people see why one stopped working, but take nobody's place. Needs the user's row locked. */
async function makeRoom(tx: Db, userId: string): Promise<void> {
  if ((await countTokens(tx, userId)) < limits.tokensPerUserMax) return;
  if ((await deleteExpiredTokens(tx, userId)) > 0) return;
  throw new ApiError("TOKEN_CREATE_FAILED", {
    message: `The account has ${limits.tokensPerUserMax} keys, and no more are allowed. Revoke one that is not used.`,
  });
}

const list = endpoint({
  method: "GET",
  path: "/tokens",
  access: "full",
  summary: "The account's API keys, without the keys themselves.",
  reply: tokenListReply,
  async handle({ db }, { caller }) {
    refuseLimited(caller, "see or revoke other keys");
    const tokens = await listTokens(db, caller.userId);
    return {
      tokens: tokens.map((token) => ({ ...tokenView(token), lastUsedAt: token.lastUsedAt?.toISOString() ?? null })),
    };
  },
});

const remove = endpoint({
  method: "DELETE",
  path: "/tokens/:id",
  access: "full",
  summary: "Revoke an API key.",
  params: idParams,
  reply: deleteTokenReply,
  async handle({ db }, { caller, params: { id }, address }) {
    if (id !== caller.tokenId) refuseLimited(caller, "see or revoke other keys");
    return revoke(db, caller, id, address);
  },
});

const removeSelf = endpoint({
  method: "DELETE",
  path: "/tokens/self",
  access: "any",
  summary: "Revoke the API key that makes the call, whatever its scopes; a ci:deploy key is revoked by its owner.",
  reply: deleteTokenReply,
  errors: ["NOT_FOUND"],
  async handle({ db }, { caller, address }) {
    if (caller.tokenId === null) {
      throw new ApiError("NOT_FOUND", { message: "The call was made without a key. Sign out to end a session." });
    }
    return revoke(db, caller, caller.tokenId, address);
  },
});

const revoke = (db: Db, caller: Caller, id: string, address: string): Promise<{ id: string }> =>
  db.transaction().execute(async (tx) => {
    if (!(await deleteToken(tx, caller.userId, id))) throw new ApiError("NOT_FOUND");
    await recordAudit(tx, { caller, address, action: "token.revoke", target: id });
    return { id };
  });

export const tokenEndpoints = [create, list, removeSelf, remove];
