import { expect, test } from "vitest";
import { answerError, type BucketErrorReason } from "./errors.ts";

const xml = (code: string) => `<?xml version="1.0"?>\n<Error><Code>${code}</Code><Message>no</Message></Error>`;

test.each<[status: number, body: string, reason: BucketErrorReason, says: RegExp]>([
  [403, xml("InvalidAccessKeyId"), "refused", /SVC_S3_ACCESS_KEY_ID \(403 InvalidAccessKeyId\)$/],
  [403, xml("SignatureDoesNotMatch"), "refused", /SVC_S3_SECRET_ACCESS_KEY_FILE/],
  [404, xml("NoSuchBucket"), "refused", /SVC_S3_BUCKET/],
  [404, xml("NoSuchKey"), "absent", /not there/],
  [404, "", "absent", /not there/],
  [301, "", "refused", /SVC_S3_REGION/],
  [400, xml("AuthorizationHeaderMalformed"), "refused", /SVC_S3_REGION/],
  [400, xml("RequestTimeout"), "away", /400 RequestTimeout/],
  [503, xml("SlowDown"), "away", /503 SlowDown/],
  [502, "<html>bad gateway</html>", "away", /^it answers 502$/],
  [403, xml("<script>"), "refused", /^it answers 403$/],
  [200, "", "refused", /^it answers 200$/],
])("%i %s", (status, body, reason, says) => {
  const error = answerError(status, body);
  expect(error.reason).toBe(reason);
  expect(error.message).toMatch(says);
});
