#!/usr/bin/env bash
# A ServiceAccount's token that ends when a test wants: the API server itself grants none of less than ten minutes.
#   token.sh DIR NAMESPACE NAME SECONDS   prints one of the cluster in DIR; SECONDS from now, before now where negative
# Not `kubectl create token`. Claims: kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin.
set -euo pipefail
dir=$1 namespace=$2 name=$3 seconds=$4
uid=$("$(dirname "$0")/build.sh")/bin/kubectl
uid=$("$uid" --kubeconfig "$dir/admin.conf" --namespace "$namespace" get serviceaccount "$name" -o 'jsonpath={.metadata.uid}')
now=$(date +%s)
# The API server allows clocks to differ by a minute (go-jose, jwt.DefaultLeeway).
leeway=60
part() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }
header=$(printf '{"alg":"RS256","typ":"JWT"}' | part)
claims=$(printf '{"iss":"https://kubernetes.default.svc","aud":["https://kubernetes.default.svc"],"sub":"system:serviceaccount:%s:%s","iat":%d,"nbf":%d,"exp":%d,"kubernetes.io":{"namespace":"%s","serviceaccount":{"name":"%s","uid":"%s"}}}' \
  "$namespace" "$name" $((now - 3600)) $((now - 3600)) $((now + seconds - leeway)) "$namespace" "$name" "$uid" | part)
signature=$(printf '%s.%s' "$header" "$claims" | openssl dgst -sha256 -sign "$dir/users/accounts.key" -binary | part)
echo "$header.$claims.$signature"
