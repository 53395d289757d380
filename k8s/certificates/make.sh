#!/bin/sh
# Makes an authority for a fleet, and a certificate for each name: certificates/make.sh FOLDER scheduler worker-berlin ...
# A name may be followed by further DNS names: scheduler,fleet.example.com. The key of the authority, ca.key, is needed
# for further certificates only: keep it off the clusters.
set -eu
umask 077
folder=$1
shift
mkdir -p "$folder"
if [ ! -e "$folder/ca.key" ]; then
    openssl ecparam -genkey -name prime256v1 -noout -out "$folder/ca.key"
    openssl req -x509 -new -sha256 -key "$folder/ca.key" -days 1825 -subj "/CN=vsphere-ai fleet" \
        -addext "basicConstraints=critical,CA:TRUE,pathlen:0" -addext "keyUsage=critical,keyCertSign,cRLSign" \
        -out "$folder/ca.crt"
fi
for names in "$@"; do
    name=${names%%,*}
    alternative=$(printf '%s' "$names" | sed 's/^/DNS:/; s/,/,DNS:/g')
    openssl ecparam -genkey -name prime256v1 -noout -out "$folder/$name.key"
    openssl req -new -sha256 -key "$folder/$name.key" -subj "/CN=$name" -out "$folder/$name.csr"
    printf '%s\n' "basicConstraints=critical,CA:FALSE" "keyUsage=critical,digitalSignature" \
        "extendedKeyUsage=serverAuth,clientAuth" "subjectAltName=$alternative" >"$folder/$name.ext"
    openssl x509 -req -sha256 -in "$folder/$name.csr" -CA "$folder/ca.crt" -CAkey "$folder/ca.key" -CAcreateserial \
        -days 90 -extfile "$folder/$name.ext" -out "$folder/$name.crt"
    rm "$folder/$name.csr" "$folder/$name.ext"
done
