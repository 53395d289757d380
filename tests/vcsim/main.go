// VMware's own vCenter simulator, built from Debian's sources of govmomi, with its API version as a flag.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/esx"
)

func main() {
	model := simulator.VPX()
	listen := flag.String("l", "127.0.0.1:0", "address to listen on")
	flag.IntVar(&model.Host, "hosts", model.Host, "hosts outside of the cluster")
	flag.IntVar(&model.ClusterHost, "cluster-hosts", model.ClusterHost, "hosts of the cluster")
	flag.IntVar(&model.Machine, "vms", model.Machine, "virtual machines per resource pool")
	// Without this the simulator says 6.5, and a client then leaves newer fields out without a word.
	flag.StringVar(&model.ServiceContent.About.ApiVersion, "api-version", "7.0.2.0", "API version to offer")
	// Go's built-in test certificate has a 1024 bit key, which OpenSSL refuses by default.
	certificate := flag.String("cert", "", "PEM file of the certificate to show")
	key := flag.String("key", "", "PEM file of its key")
	// Hosts of the simulator are ESXi 6.5, on which no VM of hardware version 19 fits.
	esxi := flag.String("esxi", "", "version of the hosts and of the vCenter instead of 6.5")
	off := flag.Bool("off", false, "leave all virtual machines powered off")
	username := flag.String("username", "user", "user name to accept")
	password := flag.String("password", "pass", "password to accept")
	flag.Parse()
	model.Autostart = !*off
	if *esxi != "" {
		esx.HostConfigInfo.Product.Version = *esxi
		model.ServiceContent.About.Version = *esxi
	}

	if err := model.Create(); err != nil {
		log.Fatal(err)
	}
	model.Service.Listen = &url.URL{Host: *listen, User: url.UserPassword(*username, *password)}
	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		log.Fatal(err)
	}
	model.Service.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server := model.Service.NewServer()
	fmt.Printf("%s\n", server.URL.Host)

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	server.Close()
}
