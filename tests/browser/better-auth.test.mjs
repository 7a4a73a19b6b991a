// Better Auth's client, called through its own methods: moving to another organization, changing names and addresses,
// second factors. These tests do not need a browser.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { after, before, test } from "node:test";
import { createAuthClient } from "better-auth/client";
import { organizationClient, twoFactorClient } from "better-auth/client/plugins";
import { confirm, linkTo, service } from "./world.mjs";

const PASSWORD = "correct horse battery";
let world;

before(async () => {
  world = await service();
});
after(async () => {
  await world?.stop();
});

// A client that keeps cookies and sends an origin, like a browser on one of the service's pages.
function client() {
  const cookies = new Map();
  const customFetchImpl = async (url, options) => {
    const headers = new Headers(options.headers);
    headers.set("origin", world.api);
    headers.set("cookie", [...cookies].map((pair) => pair.join("=")).join("; "));
    const response = await fetch(url, { ...options, headers });
    for (const set of response.headers.getSetCookie()) {
      const [name, value] = set.split(";")[0].split("=");
      if (value) cookies.set(name, value);
      else cookies.delete(name);
    }
    return response;
  };
  return createAuthClient({
    baseURL: `${world.api}/api/auth`,
    plugins: [organizationClient(), twoFactorClient()],
    fetchOptions: { customFetchImpl },
  });
}

// The data of a call that succeeds.
async function ok(call) {
  const { data, error } = await call;
  assert.equal(error, null, JSON.stringify(error));
  return data;
}

// Signs up, confirms the address, and signs a client in.
async function person(name) {
  const email = `${name}@${name}.example.com`;
  const fields = { name, email, password: PASSWORD, organizationName: name, organizationSlug: name };
  const json = { ...fields, debugNotificationEmail: email };
  const headers = { "content-type": "application/json" };
  const signedUp = await fetch(`${world.api}/v1/auth/signupAndCreateOrg`, {
    method: "POST",
    headers,
    body: JSON.stringify({ json }),
  });
  assert.equal(signedUp.status, 200, await signedUp.text());
  await confirm(world, await linkTo(world, email));
  const auth = client();
  await ok(auth.signIn.email({ email, password: PASSWORD }));
  return { auth, email };
}

// The RFC 6238 code for the secret in a link, now or some steps later.
function code(link, later = 0) {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  const secret = new URL(link).searchParams.get("secret");
  const bits = [...secret].map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const step = Buffer.alloc(8);
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + later));
  const hash = createHmac("sha1", key).update(step).digest();
  const number = hash.readUInt32BE(hash[19] & 15) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, "0");
}

test("an invited user moves to the other organization", async () => {
  const [ada, bo] = [await person("ada"), await person("bo")];
  const invite = () => ok(ada.auth.organization.inviteMember({ email: bo.email, role: "member" }));
  const first = await invite();
  assert.deepEqual((await ok(bo.auth.organization.listUserInvitations())).map(({ id }) => id), [first.id]);
  assert.equal((await ok(bo.auth.organization.getInvitation({ query: { id: first.id } }))).email, bo.email);
  await ok(bo.auth.organization.rejectInvitation({ invitationId: first.id }));
  assert.deepEqual(await ok(bo.auth.organization.listUserInvitations()), []);
  const second = await invite();
  const kept = await bo.auth.organization.acceptInvitation({ invitationId: second.id });
  assert.equal(kept.error.code, "LAST_MEMBER");
  const fetchOptions = { body: { deleteOrganization: true } };
  await ok(bo.auth.organization.acceptInvitation({ invitationId: second.id, fetchOptions }));
  const full = await ok(bo.auth.organization.getFullOrganization());
  assert.deepEqual([full.slug, full.members.length], ["ada", 2]);
});

test("names and addresses change", async () => {
  const { auth } = await person("cy");
  await ok(auth.updateUser({ name: "Cyrus" }));
  await ok(auth.changeEmail({ newEmail: "cyrus@example.com" }));
  await confirm(world, await linkTo(world, "cyrus@example.com"));
  const { user } = await ok(auth.getSession());
  assert.deepEqual([user.name, user.email], ["Cyrus", "cyrus@example.com"]);
  assert.equal((await ok(auth.organization.update({ data: { name: "Cyrus & Co" } }))).name, "Cyrus & Co");
});

test("a second factor is enabled, used and disabled", async () => {
  const { auth, email } = await person("di");
  const { totpURI, backupCodes } = await ok(auth.twoFactor.enable({ password: PASSWORD }));
  assert.equal((await ok(auth.getSession())).user.twoFactorEnabled, false);
  const wrong = await auth.twoFactor.verifyTotp({ code: "x" });
  assert.deepEqual([wrong.error.status, wrong.error.code], [401, "INVALID_CODE"]);
  await ok(auth.twoFactor.verifyTotp({ code: code(totpURI) }));
  assert.equal((await ok(auth.getSession())).user.twoFactorEnabled, true);
  assert.equal(code((await ok(auth.twoFactor.getTotpUri({ password: PASSWORD }))).totpURI), code(totpURI));

  const signIn = async () => {
    await ok(auth.signOut());
    assert.equal((await ok(auth.signIn.email({ email, password: PASSWORD }))).twoFactorRedirect, true);
    assert.equal(await ok(auth.getSession()), null);
  };
  await signIn();
  await ok(auth.twoFactor.verifyTotp({ code: code(totpURI, 1) }));
  assert.equal((await ok(auth.getSession())).user.email, email);
  await signIn();
  await ok(auth.twoFactor.verifyBackupCode({ code: backupCodes[0] }));
  await signIn();
  const used = await auth.twoFactor.verifyBackupCode({ code: backupCodes[0] });
  assert.deepEqual([used.error.status, used.error.code], [401, "INVALID_BACKUP_CODE"]);
  await ok(auth.twoFactor.verifyBackupCode({ code: backupCodes[1] }));
  const renewed = await ok(auth.twoFactor.generateBackupCodes({ password: PASSWORD }));
  assert.equal(renewed.backupCodes.length, 10);
  await ok(auth.twoFactor.disable({ password: PASSWORD }));
  assert.equal((await ok(auth.getSession())).user.twoFactorEnabled, false);
  await ok(auth.signOut());
  assert.equal((await ok(auth.signIn.email({ email, password: PASSWORD }))).user.email, email);
});
